import errno
import json
import os
import stat
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.files import replace_file
from orchestrator.suite.export.bundle import HoldsSecret, render_bundle, write_bundle
from orchestrator.suite.export.scrub import Scrubber
from store.documents.positions import format_path
from store.errors import UsageError
from store.secrets.fields import find_secret_fields
from store.secrets.redactor import MARK_PREFIX, Redactor

KEY = "ghp_" + "a1B2c3D4e5" * 4
REDACTOR = Redactor([("SERVICE_TOKEN", "correct-horse-battery")])


def fields(value: Any) -> list[str]:
    return [format_path(path) for path, _ in find_secret_fields(value, ("runs",), REDACTOR)]


def bundled(**parts: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, "report": {}, "runs": [], "markdown": ""} | parts


@pytest.mark.parametrize(
    "secret", [KEY, "correct-horse-battery", f"{MARK_PREFIX}credential]", "b3JzZS1iYXR0ZXJ5 " + KEY]
)
def test_a_secret_is_found_wherever_it_stands_and_its_field_is_named(secret: str) -> None:
    assert fields([{}, {"verifiers": [{"detail": {"stdout": f"x {secret} y"}}]}]) == [
        "runs[1].verifiers[0].detail.stdout"
    ]


@pytest.mark.parametrize("before", ["", " ", ": ", "k: ", "token="])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_a_key_known_by_its_look_is_found_in_base64(encode: Callable[..., Any], before: str) -> None:
    encoded = encode(f"{before}{KEY}\n".encode()).decode()
    assert fields({"stdout": f"it is {encoded}."}) == ["runs.stdout"]
    assert fields({"stdout": f"it is {encode(os.urandom(60)).decode()}."}) == []


def test_a_key_that_is_a_secret_is_not_told() -> None:
    assert fields([{"detail": {KEY: 1}}]) == ["runs[0].detail"]


def test_what_measures_look_like_is_no_secret() -> None:
    plain = {"configHash": "ef33d677031198dab3797105b6a17581fe02d52eebf04f1fcd667ed5eddceadb", "commit": "a1b2c3d4" * 5}
    assert fields([plain, {"runId": "20261130T115755Z-edbd6be5", "tokens": 12345, "none": None}]) == []


def test_a_refusal_names_the_field_and_never_the_value() -> None:
    with pytest.raises(HoldsSecret) as refused:
        render_bundle(bundled(runs=[{"detail": KEY}], markdown=f"# {KEY}"), Scrubber({}), REDACTOR, subject="s1")
    assert "runs[0].detail" in str(refused.value)
    assert "markdown" in str(refused.value)
    assert "ghp_" not in str(refused.value)


def test_what_is_shared_is_scrubbed_throughout() -> None:
    text = render_bundle(bundled(runs=[{"at": "/etc/x"}], markdown="in /etc/x"), Scrubber({}), REDACTOR, subject="s1")
    assert json.loads(text)["runs"] == [{"at": "<path>"}]
    assert "/etc" not in text


def test_a_file_is_replaced_only_by_force_and_written_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "share" / "run.json"
    write_bundle(file, "one", force=False)
    with pytest.raises(UsageError, match="already exists"):
        write_bundle(file, "two", force=False)
    assert file.read_text() == "one"
    write_bundle(file, "two", force=True)
    assert file.read_text() == "two"
    assert [path.name for path in file.parent.iterdir()] == ["run.json"]
    with pytest.raises(UsageError, match="is a directory"):
        write_bundle(file.parent, "two", force=True)


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path, force: bool) -> None:
    pipe, target, link, dangling = (tmp_path / name for name in ("pipe", "target", "link", "dangling"))
    os.mkfifo(pipe)
    target.write_text("mine")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "nowhere")
    for file in (pipe, link, dangling):
        with pytest.raises(UsageError, match="does not replace it"):
            write_bundle(file, "two", force=force)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert (link.is_symlink(), dangling.is_symlink(), target.read_text()) == (True, True, "mine")


def test_a_file_that_appears_while_another_is_written_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    place = replace_file(file, only_new=True)
    place.__enter__().write("ours")
    file.write_text("theirs")
    with pytest.raises(FileExistsError):
        place.__exit__(None, None, None)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("run.json", "theirs")]


def test_without_links_a_file_is_still_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    file = tmp_path / "run.json"
    write_bundle(file, "one", force=False)
    with pytest.raises(FileExistsError), replace_file(file, only_new=True) as stream:
        stream.write("two")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("run.json", "one")]


RACER = """
import sys
from pathlib import Path
from orchestrator.suite.export.bundle import write_bundle
from store.errors import UsageError
text = sys.argv[2] * 2_000_000
print("ready", flush=True)
sys.stdin.readline()
try:
    write_bundle(Path(sys.argv[1]), text, force=False)
except UsageError as error:
    sys.exit(str(error))
"""


def test_of_processes_that_export_to_one_file_at_once_exactly_one_does(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(file), letter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for letter in "abcd"
    ]
    assert [racer.stdout.readline() for racer in racers if racer.stdout] == ["ready\n"] * 4
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[1] for racer in racers]
    (winner,) = (letter for letter, racer in zip("abcd", racers, strict=True) if racer.returncode == 0)
    assert sum("already exists" in text for text in said) == 3
    assert file.read_text() == winner * 2_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
