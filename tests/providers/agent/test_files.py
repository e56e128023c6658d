from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.agent import files
from providers.agent.files import edit_file, list_files, read_file, write_file
from providers.agent.searcher import read_text_file
from providers.agent.tools import ToolContext, ToolFailed, ToolFunction
from providers.system.paths import PathEscapes

pytestmark = pytest.mark.anyio


def no_home() -> Path:
    raise AssertionError


async def use(run: ToolFunction, workspace: Path, **arguments: object) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await run(ToolContext(workspace=workspace, marker="", home=no_home), arguments))
    return told


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- read_file ----------------------------------------------------------------------------------------------------


async def test_file_is_read_with_line_numbers_and_hash(workspace: Path) -> None:
    (workspace / "a").write_bytes("one\ntwo ä\n".encode())

    assert await use(read_file, workspace, path="a") == {
        "path": "a",
        "sha256": sha256("one\ntwo ä\n".encode()),
        "startLine": 1,
        "content": "1: one\n2: two ä",
        "truncated": False,
    }


async def test_lines_asked_for_are_read(workspace: Path) -> None:
    (workspace / "a").write_text("".join(f"l{number}\n" for number in range(1, 11)))

    told = await use(read_file, workspace, path="a", startLine=3, lines=2)

    assert (told["content"], told["startLine"], told["truncated"]) == ("3: l3\n4: l4", 3, True)


async def test_last_lines_are_not_called_truncated(workspace: Path) -> None:
    (workspace / "a").write_text("1\n2\n3")

    assert not (await use(read_file, workspace, path="a", startLine=2, lines=2))["truncated"]


async def test_two_hundred_lines_are_read_unless_told_otherwise(workspace: Path) -> None:
    (workspace / "a").write_text("x\n" * 300)

    told = await use(read_file, workspace, path="a")

    assert told["content"].count("\n") == 199
    assert told["truncated"]


async def test_long_lines_are_cut_at_the_limit(workspace: Path) -> None:
    (workspace / "a").write_text("x" * 100_000)

    told = await use(read_file, workspace, path="a")

    assert len(told["content"]) == 28_000
    assert told["truncated"]


async def test_empty_file_has_empty_content(workspace: Path) -> None:
    (workspace / "a").touch()

    told = await use(read_file, workspace, path="a")

    assert (told["content"], told["truncated"]) == ("", False)


async def test_line_beyond_the_end_is_an_error_that_tells_the_length(workspace: Path) -> None:
    (workspace / "a").write_text("x\n")

    with pytest.raises(ToolFailed, match="has 1 lines"):
        await use(read_file, workspace, path="a", startLine=2)


async def test_bytes_that_are_no_text_are_shown_as_replacements(workspace: Path) -> None:
    (workspace / "a").write_bytes(b"\xff\x00\n")

    told = await use(read_file, workspace, path="a")

    assert told["content"] == "1: \ufffd\x00"
    assert told["sha256"] == sha256(b"\xff\x00\n")


async def test_large_file_is_read_and_a_larger_one_refused(workspace: Path) -> None:
    (workspace / "a").write_bytes(b"x\n" * 1_000_000)
    with (workspace / "b").open("wb") as file:
        file.truncate(files.MAX_READ_BYTES + 1)

    assert (await use(read_file, workspace, path="a", startLine=999_999))["content"] == "999999: x\n1000000: x"
    with pytest.raises(ToolFailed, match="more than"):
        await use(read_file, workspace, path="b")


async def test_what_is_no_file_is_refused_without_waiting_for_it(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "dir").mkdir()
    descriptors = len(names(Path("/proc/self/fd")))

    with anyio.fail_after(5):
        for path, problem in (("pipe", "no regular file"), ("dir", "no regular file"), ("gone", "does not exist")):
            with pytest.raises(ToolFailed, match=problem):
                await use(read_file, workspace, path=path)

    assert len(names(Path("/proc/self/fd"))) == descriptors


HOSTILE = ["../secret", "/etc/passwd", "out/passwd", "etc/../etc/passwd", "link", "", "a\0", "..\\secret"]


@pytest.fixture
def traps(workspace: Path) -> Path:
    """A workspace with links that lead outside, and something outside to find."""
    (workspace.parent / "secret").write_text("secret")
    (workspace / "out").symlink_to("/etc")
    (workspace / "link").symlink_to("../secret")
    return workspace


@pytest.mark.parametrize("path", HOSTILE)
async def test_nothing_outside_is_read_listed_or_written(traps: Path, path: str) -> None:
    with pytest.raises(PathEscapes):
        await use(read_file, traps, path=path)
    with pytest.raises((PathEscapes, ToolFailed)):
        await use(list_files, traps, path=path)
    with pytest.raises((PathEscapes, ToolFailed)):
        await use(write_file, traps, path=path, content="x", expectedHash=None)
    with pytest.raises((PathEscapes, ToolFailed)):
        await use(edit_file, traps, path=path, expectedHash=sha256(b"secret"), oldText="secret", newText="x")

    assert (traps.parent / "secret").read_text() == "secret"


# --- list_files ---------------------------------------------------------------------------------------------------


async def test_files_are_listed_sorted_without_litter(workspace: Path) -> None:
    for path in ("b/c", "b/a", "b.txt", "a", ".git/x", "b/node_modules/x", "b/__pycache__/x", "...x/y"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).touch()
    (workspace / "empty").mkdir()
    (workspace / "loop").symlink_to(".")

    told = await use(list_files, workspace)

    assert told == {
        "path": ".",
        "files": ["...x/y", "a", "b.txt", "b/a", "b/c", "empty/", "loop"],
        "truncated": False,
    }
    assert (await use(list_files, workspace, path="./b/"))["files"] == ["b/a", "b/c"]
    assert (await use(list_files, workspace, path="...x"))["files"] == ["...x/y"]


async def test_empty_workspace_lists_nothing(workspace: Path) -> None:
    assert (await use(list_files, workspace))["files"] == []


async def test_long_listing_is_bounded(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_ENTRIES", 5)
    for number in range(9):
        (workspace / f"f{number}").touch()

    told = await use(list_files, workspace)

    assert (told["files"], told["truncated"]) == (["f0", "f1", "f2", "f3", "f4"], True)


async def test_listing_of_what_is_no_directory_is_an_error(workspace: Path) -> None:
    (workspace / "a").touch()

    with pytest.raises(ToolFailed, match="no directory"):
        await use(list_files, workspace, path="a")
    with pytest.raises(ToolFailed, match="does not exist"):
        await use(list_files, workspace, path="gone")


# --- write_file ---------------------------------------------------------------------------------------------------


async def test_new_file_is_written_with_its_directories(workspace: Path) -> None:
    told = await use(write_file, workspace, path="x/y/z", content="ä\0\r\n", expectedHash=None)

    assert (workspace / "x/y/z").read_bytes() == "ä\0\r\n".encode()
    assert told == {"path": "x/y/z", "sha256": sha256("ä\0\r\n".encode())}


async def test_existing_file_is_not_replaced_without_its_hash(workspace: Path) -> None:
    (workspace / "a").write_text("old")

    with pytest.raises(ToolFailed, match="exists already"):
        await use(write_file, workspace, path="a", content="new", expectedHash=None)
    with pytest.raises(ToolFailed, match="stale"):
        await use(write_file, workspace, path="a", content="new", expectedHash=sha256(b"older"))
    with pytest.raises(ToolFailed, match="does not exist"):
        await use(write_file, workspace, path="b", content="new", expectedHash=sha256(b"old"))

    assert (workspace / "a").read_text() == "old"


async def test_existing_file_is_replaced_under_its_hash_and_keeps_its_mode(workspace: Path) -> None:
    (workspace / "a").write_text("old")
    (workspace / "a").chmod(0o750)

    await use(write_file, workspace, path="a", content="new", expectedHash=sha256(b"old"))

    assert (workspace / "a").read_text() == "new"
    assert (workspace / "a").stat().st_mode & 0o777 == 0o750
    assert names(workspace) == ["a"]


async def test_a_file_with_another_name_outside_is_neither_read_nor_changed(workspace: Path) -> None:
    (workspace.parent / "outside").write_text("old")
    os.link(workspace.parent / "outside", workspace / "a")

    with pytest.raises(ToolFailed, match="several hard links"):
        await use(read_file, workspace, path="a")
    with pytest.raises(ToolFailed, match="several hard links"):
        await use(write_file, workspace, path="a", content="new", expectedHash=sha256(b"old"))

    assert read_text_file(str(workspace / "a"), 100) is None
    assert (workspace.parent / "outside").read_text() == "old"


async def test_links_are_not_written_through(workspace: Path) -> None:
    (workspace / "a").write_text("old")
    (workspace / "link").symlink_to("a")
    (workspace / "dangling").symlink_to("b")

    with pytest.raises(ToolFailed, match="symbolic link"):
        await use(write_file, workspace, path="link", content="new", expectedHash=sha256(b"old"))
    with pytest.raises(ToolFailed, match="symbolic link"):
        await use(write_file, workspace, path="dangling", content="new", expectedHash=None)


async def test_file_that_would_be_too_large_is_refused(workspace: Path) -> None:
    with pytest.raises(ToolFailed, match="at most"):
        await use(write_file, workspace, path="a", content="x" * (files.MAX_WRITE_BYTES + 1), expectedHash=None)

    assert names(workspace) == []


@pytest.mark.parametrize("path", [".", "dir", "dir/."])
async def test_directory_is_not_written(workspace: Path, path: str) -> None:
    (workspace / "dir").mkdir()

    with pytest.raises(ToolFailed):
        await use(write_file, workspace, path=path, content="x", expectedHash=None)


# --- edit_file ----------------------------------------------------------------------------------------------------


async def test_text_that_occurs_once_is_replaced(workspace: Path) -> None:
    (workspace / "a").write_bytes(b"\xff one two\r\n")

    told = await use(
        edit_file, workspace, path="a", expectedHash=sha256(b"\xff one two\r\n"), oldText="one", newText="1ä"
    )

    assert (workspace / "a").read_bytes() == b"\xff 1\xc3\xa4 two\r\n"
    assert told["sha256"] == sha256(b"\xff 1\xc3\xa4 two\r\n")


@pytest.mark.parametrize(
    ("old", "problem"), [("x", "does not occur"), ("a", "more than once"), ("aa", "more than once"), ("", "empty")]
)
async def test_text_that_does_not_occur_exactly_once_is_refused(workspace: Path, old: str, problem: str) -> None:
    (workspace / "a").write_text("aaa")

    with pytest.raises(ToolFailed, match=problem):
        await use(edit_file, workspace, path="a", expectedHash=sha256(b"aaa"), oldText=old, newText="b")

    assert (workspace / "a").read_text() == "aaa"


async def test_edit_under_a_stale_hash_is_refused_and_says_to_read_again(workspace: Path) -> None:
    (workspace / "a").write_text("new")

    with pytest.raises(ToolFailed, match="read it again"):
        await use(edit_file, workspace, path="a", expectedHash=sha256(b"old"), oldText="new", newText="x")


async def test_hash_may_be_written_in_capitals(workspace: Path) -> None:
    (workspace / "a").write_text("old")

    await use(edit_file, workspace, path="a", expectedHash=sha256(b"old").upper(), oldText="old", newText="new")

    assert (workspace / "a").read_text() == "new"


@given(content=st.text(st.sampled_from("ab\n\r\0ä"), max_size=30), old=st.text(st.sampled_from("ab\n"), max_size=4))
def test_edit_does_what_replacing_the_only_occurrence_does(content: str, old: str) -> None:
    starts = [at for at in range(len(content)) if old and content.startswith(old, at)]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a"
        path.write_bytes(content.encode())
        edit = partial(
            use, edit_file, Path(name), path="a", expectedHash=sha256(content.encode()), oldText=old, newText="Z"
        )
        if len(starts) == 1:
            anyio.run(edit)
            assert path.read_bytes().decode() == content[: starts[0]] + "Z" + content[starts[0] + len(old) :]
        else:
            with pytest.raises(ToolFailed):
                anyio.run(edit)
            assert path.read_bytes().decode() == content


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (read_file, {"path": "a"}),
        (list_files, {}),
        (write_file, {"path": "new", "content": "x", "expectedHash": None}),
        (edit_file, {"path": "a", "expectedHash": sha256(b"theirs"), "oldText": "theirs", "newText": "mine"}),
    ],
    ids=["read_file", "list_files", "write_file", "edit_file"],
)
async def test_link_in_the_place_of_the_workspace_is_not_followed(
    workspace: Path, tmp_path: Path, tool: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").write_bytes(b"theirs")
    workspace.rename(tmp_path / "moved")
    workspace.symlink_to(elsewhere)

    with pytest.raises(PathEscapes):
        await use(tool, workspace, **arguments)

    assert names(elsewhere) == ["a"]
    assert (elsewhere / "a").read_bytes() == b"theirs"
