from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from verifiers.base import Evidence, Verifier
from verifiers.files import CHUNK_BYTES, FileAbsent, FileContains, FileEquals

pytestmark = pytest.mark.anyio

SHA = hashlib.sha256(b"hello").hexdigest()


def contains(path: str, text: str = "hello") -> FileContains:
    return FileContains(id="f", path=path, text=text)


@pytest.mark.parametrize(("content", "verdict"), [(b"hello", "pass"), (b"hello\n", "fail"), (None, "fail")])
async def test_file_equals_compares_the_hash(
    evidence: Callable[..., Evidence], workspace: Path, content: bytes | None, verdict: str
) -> None:
    if content is not None:
        (workspace / "out").write_bytes(content)
    said = await FileEquals(id="f", path="out", sha256=SHA.upper()).verify(evidence())
    assert said.verdict == verdict


async def test_file_contains_finds_text_across_pieces(evidence: Callable[..., Evidence], workspace: Path) -> None:
    (workspace / "big").write_bytes(b"x" * (CHUNK_BYTES - 2) + "größe".encode() + b"y" * CHUNK_BYTES)
    assert (await contains("big", "größe").verify(evidence())).verdict == "pass"
    assert (await contains("big", "grösse").verify(evidence())).detail["reason"] == "text_missing"


async def test_a_missing_file_fails(evidence: Callable[..., Evidence]) -> None:
    said = await contains("nowhere/at/all").verify(evidence())
    assert (said.verdict, said.detail["reason"]) == ("fail", "missing")


@pytest.mark.parametrize("path", ["../fixture/check.py", "/etc/passwd", "out/../../x", "a\0b", ""])
@pytest.mark.parametrize("kind", ["equals", "contains", "absent"])
async def test_a_path_that_leads_outside_is_an_error(evidence: Callable[..., Evidence], path: str, kind: str) -> None:
    verifiers: dict[str, Verifier] = {
        "equals": FileEquals(id="f", path=path, sha256=SHA),
        "contains": contains(path),
        "absent": FileAbsent(id="f", path=path),
    }
    said = await verifiers[kind].verify(evidence())
    assert (said.verdict, said.detail["reason"]) == ("error", "path_escapes")


@pytest.mark.parametrize("target", ["/etc/passwd", "../fixture/check.py"])
async def test_a_link_that_the_run_made_to_lead_outside_fails(
    evidence: Callable[..., Evidence], workspace: Path, target: str
) -> None:
    (workspace / "out").symlink_to(target)
    for verifier in (contains("out"), FileAbsent(id="f", path="out")):
        said = await verifier.verify(evidence())
        assert (said.verdict, said.detail["reason"]) == ("fail", "path_escapes")


@pytest.mark.parametrize(
    "verifier",
    [FileContains(id="f", path="a.txt", text="x"), FileAbsent(id="f", path="b.txt")],
    ids=["file-contains", "file-absent"],
)
async def test_a_link_in_the_place_of_the_workspace_fails(
    evidence: Callable[..., Evidence], workspace: Path, tmp_path: Path, verifier: FileAbsent | FileContains
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("x")
    workspace.rename(tmp_path / "moved")
    workspace.symlink_to(tmp_path / "elsewhere")
    judged = await verifier.verify(evidence())
    assert (judged.verdict, judged.detail["reason"]) == ("fail", "workspace_gone")


async def test_a_link_inside_is_followed(evidence: Callable[..., Evidence], workspace: Path) -> None:
    (workspace / "real").write_text("hello")
    (workspace / "out").symlink_to("real")
    assert (await contains("out").verify(evidence())).verdict == "pass"


async def test_a_directory_of_the_fixture_is_no_file_to_name_in_a_suite(evidence: Callable[..., Evidence]) -> None:
    said = await contains("src").verify(evidence())
    assert (said.verdict, said.detail["reason"]) == ("error", "not_a_file")


async def test_what_the_run_put_in_a_files_place_fails_and_is_not_waited_for(
    evidence: Callable[..., Evidence], workspace: Path
) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "made").mkdir()
    for path in ("pipe", "made"):
        said = await contains(path).verify(evidence())
        assert (said.verdict, said.detail["reason"]) == ("fail", "not_a_file")


@pytest.mark.parametrize("thing", ["file", "directory", "dangling link"])
async def test_file_absent_fails_for_whatever_is_there(
    evidence: Callable[..., Evidence], workspace: Path, thing: str
) -> None:
    verifier = FileAbsent(id="f", path="src/out")
    assert (await verifier.verify(evidence())).verdict == "pass"
    place = workspace / "src" / "out"
    if thing == "file":
        place.touch()
    elif thing == "directory":
        place.mkdir()
    else:
        place.symlink_to("nowhere")
    assert (await verifier.verify(evidence())).verdict == "fail"


def test_a_hash_must_look_like_one() -> None:
    with pytest.raises(ValueError):
        FileEquals(id="f", path="out", sha256="abc")


@pytest.mark.anyio
async def test_a_hard_link_to_a_file_outside_is_not_read(
    evidence: Callable[..., Evidence], workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("wanted")
    (workspace / "link.txt").hardlink_to(tmp_path / "outside.txt")
    said = await FileContains(id="text", path="link.txt", text="wanted").verify(evidence())
    assert (said.verdict, said.detail["reason"]) == ("fail", "hard_link")
    changes = evidence().changes
    assert [(change.path, change.content) for change in changes if change.path == "link.txt"] == [("link.txt", None)]


@pytest.mark.anyio
async def test_a_fixture_installed_with_hard_links_is_read(
    evidence: Callable[..., Evidence], fixture: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache.py").hardlink_to(fixture / "check.py")
    said = await FileContains(id="text", path="check.py", text="all good").verify(evidence(workspace=fixture))
    assert said.verdict == "pass"
