"""Cassettes on the disk: all of them are written or none, none holds a secret, and each belongs to its suite."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.installation import BUNDLED
from orchestrator.suite.formats.suite_json import read_suite
from orchestrator.suite.recordings import cassettes
from orchestrator.suite.recordings.cassettes import (
    MAX_DIRECTORY_BYTES,
    read_cassette,
    refuse_installed,
    write_cassettes,
)
from providers.base import Answer, ReasoningDelta, TextDelta
from providers.endpoints.arguments import build_tool_call
from providers.recording.cassette import CassetteHeader, decode_cassette
from store.errors import UsageError
from store.secrets.redactor import Redactor
from tests.orchestrator.suite.recordings.recorded import cassette

PLANTED = "correct-horse-battery"
SHAPED = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"
REDACTOR = Redactor([("SOME_KEY", PLANTED)])


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "t.jsonl"
    write_cassettes({path: cassette()}, REDACTOR)
    assert decode_cassette(path.read_bytes(), name="t") == cassette()
    assert [file.name for file in path.parent.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize("secret", [PLANTED, SHAPED, "[redacted:SOME_KEY]"])
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda secret: cassette(f"use {secret} now"), "calls[0].request.messages[0].user.text"),
        (lambda secret: cassette(reply=Answer(text=f"it is {secret} here")), "calls[0].answer.text"),
        (lambda secret: cassette(reply=Answer(continuation={"a": [secret]})), "calls[0].answer.continuation.a[0]"),
        (
            lambda secret: cassette(
                reply=Answer(calls=(build_tool_call("1", "bash", json.dumps({"command": secret})),))
            ),
            "calls[0].answer.calls[0].arguments",
        ),
        (
            lambda secret: cassette(reply=Answer(continuation={"a": {secret: {secret: 1}}})),
            "calls[0].answer.continuation.a",
        ),
        (lambda secret: cassette(task=secret), "taskId"),
    ],
)
def test_a_secret_is_refused_by_its_field_and_nothing_is_written(
    tmp_path: Path, secret: str, make: Callable[..., Any], field: str
) -> None:
    other = tmp_path / "other.jsonl"
    with pytest.raises(UsageError) as caught:
        write_cassettes({other: cassette(), tmp_path / "t.jsonl": make(secret)}, REDACTOR)
    assert f"t.jsonl: {field}: holds " in str(caught.value)
    assert PLANTED not in str(caught.value)
    assert SHAPED not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("secret", [PLANTED, SHAPED])
@pytest.mark.parametrize("delta", [TextDelta, ReasoningDelta])
def test_a_secret_that_was_streamed_in_pieces_is_refused(
    tmp_path: Path, secret: str, delta: type[ReasoningDelta | TextDelta]
) -> None:
    pieces = tuple(delta(secret[at : at + 7]) for at in range(0, len(secret), 7))
    whole = Answer(text=f"It is {secret}") if delta is TextDelta else Answer(reasoning=f"It is {secret}")
    recorded = cassette()
    call = attrs.evolve(recorded.calls[0], events=(delta("It is "), *pieces), reply=whole)
    with pytest.raises(UsageError, match=r"t\.jsonl: calls\[0\]\.events: holds a secret"):
        write_cassettes({tmp_path / "t.jsonl": attrs.evolve(recorded, calls=(call,))}, REDACTOR)
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_cassettes({path: cassette("before")}, REDACTOR)
    with pytest.raises(UsageError):
        write_cassettes({path: cassette(PLANTED)}, REDACTOR)
    assert decode_cassette(path.read_bytes(), name="t") == cassette("before")


def test_a_cassette_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"t\.jsonl: 30\d,\d{3} bytes; a cassette has at most 262,144"):
        write_cassettes({tmp_path / "t.jsonl": cassette("x y " * 75_000)}, REDACTOR)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_would_be_too_full_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_bytes(b"x" * (MAX_DIRECTORY_BYTES - 10))
    with pytest.raises(UsageError, match="a directory of cassettes has at most"):
        write_cassettes({tmp_path / "t.jsonl": cassette()}, REDACTOR)
    assert [file.name for file in tmp_path.iterdir()] == ["old.jsonl"]


def test_a_full_disk_is_told_with_the_file_that_did_not_fit_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        with pytest.raises(UsageError) as caught:
            write_cassettes({tmp_path / "t.jsonl": cassette()}, REDACTOR)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value).startswith(f"{tmp_path / 't.jsonl'}: cannot write the cassettes: ")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("t.jsonl", b"old")]


@pytest.mark.parametrize(
    ("field", "line"), [("suite_version", "suiteVersion"), ("suite_id", "suiteId"), ("task_id", "taskId")]
)
def test_a_cassette_of_another_version_suite_or_task_is_refused(tmp_path: Path, field: str, line: str) -> None:
    suite = read_suite(BUNDLED / "demo", bundled=True)
    task = suite.tasks[0]
    right = CassetteHeader(
        suite_id=suite.suite_id,
        suite_version=suite.suite_version,
        task_id=task.id,
        config_hash="",
        model="m",
        effects=(),
    )
    path = tmp_path / f"{task.id}.jsonl"
    write_cassettes({path: attrs.evolve(cassette(), header=right)}, REDACTOR)
    read_cassette(suite, task, tmp_path)
    wrong: dict[str, Any] = {field: "0.9.0"}
    write_cassettes({path: attrs.evolve(cassette(), header=attrs.evolve(right, **wrong))}, REDACTOR)
    with pytest.raises(UsageError, match=rf":1: {line}: recorded with '0\.9\.0'"):
        read_cassette(suite, task, tmp_path)


def test_an_installed_package_is_not_recorded_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_installed(BUNDLED / "demo" / "cassettes")
    installed = tmp_path / "site-packages" / "suites"
    monkeypatch.setattr(cassettes, "BUNDLED", installed)
    with pytest.raises(UsageError, match="is part of the installed package"):
        refuse_installed(installed / "demo" / "cassettes")
    refuse_installed(Path(tmp_path / "mine"))
