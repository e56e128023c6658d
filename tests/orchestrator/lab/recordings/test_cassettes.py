"""Cassettes of a lab on the disk: read strictly, written whole or not at all, and never outside the lab."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.lab.model import Expectation, LabCase
from orchestrator.lab.recordings.cassettes import (
    MAX_CASSETTE_BYTES,
    SCHEMA,
    LabCassette,
    decode_cassette,
    encode_cassette,
    explain_stale,
    find_cassette,
    write_cassette,
)
from providers.decisions.answer_log import RecordedAnswer
from store.errors import UsageError
from store.secrets.redactor import Redactor
from tests.orchestrator.lab import labs

PLANTED = "correct-horse-battery"
SHAPED = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"
REDACTOR = Redactor([("HOUSE_KEY", PLANTED)])
HASH = "0123456789abcdef" * 4
FIXTURE = LabCase(
    id="rm-root",
    capability="gate",
    version=1,
    input={"a": 1},
    expect=(Expectation(cel="true", why="w"),),
    content="",
)


def read(path: Path, name: str = "c.json") -> LabCassette:
    return decode_cassette(path.read_bytes(), name=name)


def cassette(*bodies: Any, node: str = "judge", status: int = 200, version: int = 1) -> LabCassette:
    answers = tuple(RecordedAnswer(status=status, body=body) for body in bodies or ({"model": "m"},))
    return LabCassette(fixture_version=version, input_hash=HASH, answers={node: answers})


def stored(lab: Path, made: LabCassette, name: str = "jev.json") -> Path:
    path = lab / "cassettes" / "gate" / "rm-root" / name
    write_cassette(path, made, lab, REDACTOR)
    return path


def refused(lab: Path, made: LabCassette, path: Path | None = None) -> str:
    """What is said, where nothing was written."""
    with pytest.raises(UsageError) as caught:
        write_cassette(path or lab / "cassettes" / "gate" / "rm-root" / "jev.json", made, lab, REDACTOR)
    return str(caught.value)


def said(**changes: Any) -> bytes:
    """A file's text, with keys changed; None leaves one out."""
    document = {
        "schema": SCHEMA,
        "fixtureVersion": 1,
        "inputHash": HASH,
        "answers": {"judge": [{"status": 200, "body": "x"}]},
    } | changes
    return json.dumps({key: value for key, value in document.items() if value is not None}, indent=1).encode()


def files(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


# --- what is written can be read --------------------------------------------------------------------------------


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
BODIES = TEXT | st.lists(JSON, max_size=4) | st.dictionaries(TEXT, JSON, max_size=4)
CASSETTES = st.builds(
    LabCassette,
    fixture_version=st.integers(1, 10**6),
    input_hash=st.text("0123456789abcdef", min_size=64, max_size=64),
    answers=st.dictionaries(
        st.from_regex(r"[a-z0-9-]{1,12}", fullmatch=True),
        st.lists(st.builds(RecordedAnswer, status=st.integers(200, 599), body=BODIES), min_size=1, max_size=3).map(
            tuple
        ),
        max_size=4,
    ),
)


@given(made=CASSETTES)
def test_what_is_written_is_read_back_and_written_the_same_again(made: LabCassette) -> None:
    raw = encode_cassette(made)
    again = decode_cassette(raw, name="c.json")
    assert again == made
    assert encode_cassette(again) == raw


@settings(max_examples=50)
@given(content=st.binary(max_size=60), status=st.integers(200, 599))
def test_any_body_can_be_recorded(content: bytes, status: int) -> None:
    made = LabCassette(
        fixture_version=1, input_hash=HASH, answers={"n": (RecordedAnswer.from_content(status, content),)}
    )
    assert decode_cassette(encode_cassette(made), name="c.json") == made


def test_file_is_for_people_to_read_and_shows_no_characters_that_deceive_them(tmp_path: Path) -> None:
    made = cassette({"text": "grün \u202e\x9b31m\x1b[0m"}, "data: 1\n", node="b-node")
    text = stored(tmp_path, attrs.evolve(made, answers={**made.answers, "a-node": made.answers["b-node"]}))
    lines = text.read_text(encoding="utf-8").splitlines()
    assert lines[:5] == [
        "{",
        f'  "schema": "{SCHEMA}",',
        '  "fixtureVersion": 1,',
        f'  "inputHash": "{HASH}",',
        '  "answers": {',
    ]
    assert [line.strip() for line in lines if "-node" in line] == ['"a-node": [', '"b-node": [']
    assert '"text": "grün \\u202e\\u009b31m\\u001b[0m"' in "\n".join(lines)
    assert read(text).answers["b-node"] == made.answers["b-node"]


def test_writing_replaces_what_is_there_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    stored(tmp_path, cassette("old"))
    left = tmp_path / "cassettes" / "gate" / "rm-root" / f".jev.json.{os.getpid()}"
    left.write_text("of a process that was killed")
    path = stored(tmp_path, cassette("new"))
    assert read(path) == cassette("new")
    assert [file.name for file in path.parent.iterdir()] == ["jev.json"]


# --- reading ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "evalctl.lab-cassette/2"}, "c.json:2:2: schema: expected 'evalctl.lab-cassette/1', got"),
        ({"schema": None}, "c.json:1:1: (document): missing required field 'schema'"),
        ({"fixtureVersion": 0}, "c.json:3:2: fixtureVersion: must be >= 1: 0"),
        ({"fixtureVersion": "1"}, "c.json:3:2: fixtureVersion: expected an integer, got '1'"),
        ({"inputHash": "abc"}, "c.json:4:2: inputHash: must match"),
        ({"inputHash": HASH + "\n"}, "inputHash: must match"),
        ({"fixtureVerison": 1}, "unknown field 'fixtureVerison' (did you mean 'fixtureVersion'?)"),
        ({"answers": []}, "answers: expected an object, got an array"),
        ({"answers": {"judge": []}}, "c.json:6:3: answers.judge: expected at least one answer"),
        ({"answers": {"Judge": [{"status": 200, "body": ""}]}}, "expected the id of a node ([a-z0-9-]+), got 'Judge'"),
        ({"answers": {"judge": {"status": 200}}}, "answers.judge: expected an array, got an object"),
        ({"answers": {"judge": [{"status": 200}]}}, "answers.judge[0]: missing required field 'body'"),
        ({"answers": {"judge": [{"status": 99, "body": ""}]}}, "answers.judge[0].status: must be >= 200: 99"),
        ({"answers": {"judge": [{"status": 600, "body": ""}]}}, "answers.judge[0].status: must be <= 599: 600"),
        ({"answers": {"judge": [{"status": True, "body": ""}]}}, "status: expected an integer, got true"),
        (
            {"answers": {"judge": [{"status": 200, "body": 42}]}},
            "answers.judge[0].body: expected an object, an array, or the text of the body, got 42",
        ),
        (
            {"answers": {"judge": [{"status": 200, "body": "", "headers": {"x": "y"}}]}},
            "answers.judge[0].headers: unknown field 'headers'",
        ),
    ],
)
def test_what_is_no_cassette_is_refused_with_its_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(said(**changes))
    with pytest.raises(UsageError) as caught:
        read(path, name="c.json")
    assert message in str(caught.value)


def test_everything_wrong_is_told_at_once() -> None:
    raw = said(extra=1, answers={"J": [{"status": 1, "body": None}]})
    with pytest.raises(UsageError) as caught:
        decode_cassette(raw, name="c.json")
    assert len(str(caught.value).splitlines()) == 4


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "c.json:1:1: expected a value"),
        (b'{"schema": 1, "schema": 1}', "duplicate key 'schema'"),
        (b"\xff", "not UTF-8"),
        (said() + b" " * MAX_CASSETTE_BYTES, "c.json:1:1: more than 262,144 bytes"),
        (b"[]", "c.json:1:1: (document): expected an object, got an array"),
    ],
)
def test_what_is_no_json_or_too_long_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_cassette(raw, name="c.json")
    assert message in str(caught.value)


def test_what_is_no_file_of_the_lab_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    lab = labs.lab(FIXTURE, root=tmp_path / "lab")
    place = lab.root / "cassettes" / "gate" / "rm-root"
    place.mkdir(parents=True)
    (tmp_path / "outside.json").write_bytes(said())
    (place / "outside.json").symlink_to(tmp_path / "outside.json")
    (place / "nowhere.json").symlink_to("gone.json")
    os.mkfifo(place / "pipe.json")
    for target, message in (
        ("outside", "leads outside through a symbolic link"),
        ("nowhere", "no such file"),
        ("pipe", "not a file"),
    ):
        with pytest.raises(UsageError, match=f"^c: {message}"):
            find_cassette(lab, FIXTURE, target, name="c")
    assert find_cassette(lab, FIXTURE, "jev", name="c") is None


# --- staleness --------------------------------------------------------------------------------------------------


def test_cassette_is_stale_when_version_or_input_changed() -> None:
    fresh = LabCassette(fixture_version=1, input_hash=FIXTURE.input_hash, answers={})
    assert explain_stale(fresh, FIXTURE) is None
    assert explain_stale(fresh, attrs.evolve(FIXTURE, description="other words")) is None
    assert explain_stale(fresh, attrs.evolve(FIXTURE, version=2)) == "fixture version 1 recorded, now 2"
    assert explain_stale(fresh, attrs.evolve(FIXTURE, input={"a": 2})) == "input changed"
    assert explain_stale(fresh, attrs.evolve(FIXTURE, input={"a": 1.0})) is None


# --- what is not written ----------------------------------------------------------------------------------------


def events(*pieces: str) -> str:
    chunks = [{"id": "a\u2028b", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    return "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


@pytest.mark.parametrize("secret", [PLANTED, SHAPED, "[redacted:HOUSE_KEY]"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (lambda secret: {"error": {"message": f"bad key {secret}"}}, "answers.judge[0].body.error.message"),
        (lambda secret: {"choices": [{"message": {"content": secret}}]}, "body.choices[0].message.content"),
        (lambda secret: {"content": json.dumps({"answer": {"why": secret}})}, "answers.judge[0].body.content"),
        (lambda secret: [secret], "answers.judge[0].body[0]"),
        (lambda secret: {secret: 1}, "answers.judge[0].body"),
        (lambda secret: f"exit 1: {secret}", "answers.judge[0].body"),
        (lambda secret: events("say ", secret), "answers.judge[0].body"),
        (lambda secret: f'{{"a": 1,\n"a": "\\u{ord(secret[0]):04x}{secret[1:]}"}}', "answers.judge[0].body"),
        (lambda secret: events(secret[:7], secret[7:12], secret[12:]), "answers.judge[0].body"),
        (
            lambda secret: "\n".join(json.dumps({"message": {"content": piece}}) for piece in (secret[:9], secret[9:])),
            "answers.judge[0].body",
        ),
    ],
)
def test_secret_is_told_by_its_field_and_nothing_is_written(
    tmp_path: Path, secret: str, body: Callable[..., Any], field: str
) -> None:
    text = refused(tmp_path, cassette(body(secret)))
    assert f"jev.json: {'' if field.startswith('answers') else 'answers.judge[0].'}{field}: holds " in text
    assert secret not in text
    assert files(tmp_path) == []


def test_refusal_leaves_what_was_there_before(tmp_path: Path) -> None:
    path = stored(tmp_path, cassette("old"))
    refused(tmp_path, cassette(PLANTED))
    assert read(path) == cassette("old")


def test_cassette_that_is_too_long_is_not_written(tmp_path: Path) -> None:
    assert "a cassette has at most 262,144" in refused(tmp_path, cassette("word " * (MAX_CASSETTE_BYTES // 5)))
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (cassette("x", status=100), "status: must be >= 200"),
        (cassette("x", node="no node"), "expected the id of a node"),
        (cassette("x", version=0), "fixtureVersion: must be >= 1"),
        (cassette("\ud800"), "a lone surrogate"),
        (cassette(None), "expected an object, an array, or the text"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, made: LabCassette, message: str) -> None:
    assert message in refused(tmp_path, made)
    assert files(tmp_path) == []


@pytest.mark.parametrize("inside", ["cassettes", "cassettes/gate", "cassettes/gate/rm-root"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, inside: str) -> None:
    lab, outside = tmp_path / "lab", tmp_path / "outside"
    outside.mkdir()
    (lab / inside).parent.mkdir(parents=True)
    (lab / inside).symlink_to(outside)
    assert "part of its path is a symbolic link or not a directory" in refused(lab, cassette())
    assert files(outside) == []


def test_link_in_the_files_own_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    lab, outside = tmp_path / "lab", tmp_path / "outside.json"
    outside.write_text("untouched")
    place = lab / "cassettes" / "gate" / "rm-root" / "jev.json"
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    stored(lab, cassette())
    assert (outside.read_text(), place.is_symlink()) == ("untouched", False)
    assert read(place) == cassette()


@pytest.mark.parametrize("path", ["../elsewhere.json", "cassettes/../../elsewhere.json", "/elsewhere.json", "."])
def test_nothing_is_written_outside_the_lab(tmp_path: Path, path: str) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    assert "is not in the lab" in refused(lab, cassette(), lab / path)
    assert files(tmp_path) == ["lab"]


def test_lab_that_is_itself_behind_a_link_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "lab").symlink_to(tmp_path / "real")
    assert read(stored(tmp_path / "lab", cassette())) == cassette()


def test_disk_that_refuses_is_a_users_problem_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "cassettes" / "gate" / "rm-root" / "jev.json").mkdir(parents=True)
    assert "the cassette cannot be written" in refused(tmp_path, cassette())
    assert files(tmp_path) == [
        "cassettes",
        "cassettes/gate",
        "cassettes/gate/rm-root",
        "cassettes/gate/rm-root/jev.json",
    ]
