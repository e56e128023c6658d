from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from providers.system import tree
from providers.system.tree import list_changes, take_snapshot
from store.rows import FileChange


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one\n")
    (root / "b.txt").write_text("two\n")
    return root


def names(found: tuple[FileChange, ...]) -> list[tuple[str, str]]:
    return [(change.path, change.change) for change in found]


def test_untouched_tree_has_no_changes(root: Path) -> None:
    assert list_changes(take_snapshot(root), root) == ()


def test_changes_are_told_with_their_content_sorted_by_path(root: Path) -> None:
    before = take_snapshot(root)
    (root / "src" / "a.py").write_text("ONE\n")
    (root / "b.txt").unlink()
    (root / "new").mkdir()
    (root / "new" / "c").write_bytes(b"\xff\x00")

    found = list_changes(before, root)

    assert names(found) == [("b.txt", "deleted"), ("new/c", "added"), ("src/a.py", "changed")]
    assert [change.content for change in found] == [None, b"\xff\x00", b"ONE\n"]
    assert found[0].mode is None
    assert found[1].mode == stat.S_IMODE((root / "new" / "c").stat().st_mode)


def test_change_is_found_whatever_the_time_stamps_say(root: Path) -> None:
    before = take_snapshot(root)
    status = (root / "b.txt").stat()
    (root / "b.txt").write_text("TWO\n")
    os.utime(root / "b.txt", ns=(status.st_atime_ns, status.st_mtime_ns))

    assert names(list_changes(before, root)) == [("b.txt", "changed")]


def test_new_time_stamp_alone_is_no_change(root: Path) -> None:
    before = take_snapshot(root)
    os.utime(root / "b.txt", (1, 1))

    assert list_changes(before, root) == ()


def test_copy_elsewhere_is_compared_with_the_original(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    (copy / "b.txt").chmod(0o600)

    assert list_changes(take_snapshot(root), copy) == ()


@pytest.mark.parametrize("mode", [0o755, 0o4644])
def test_mode_that_matters_is_a_change(root: Path, mode: int) -> None:
    before = take_snapshot(root)
    (root / "b.txt").chmod(mode)

    found = list_changes(before, root)

    assert names(found) == [("b.txt", "changed")]
    assert found[0].mode == mode


@pytest.mark.parametrize("name", [".git", "node_modules", "__pycache__"])
@pytest.mark.parametrize("where", [".", "src"])
def test_what_tools_litter_is_ignored_at_every_depth(root: Path, name: str, where: str) -> None:
    before = take_snapshot(root)
    (root / where / name).mkdir()
    (root / where / name / "x").write_text("x")

    assert list_changes(before, root) == ()


def test_names_that_only_resemble_the_ignored_are_seen(root: Path) -> None:
    before = take_snapshot(root)
    (root / ".gitignore").write_text("x")

    assert names(list_changes(before, root)) == [(".gitignore", "added")]


def test_links_are_recorded_and_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    before = take_snapshot(root)
    (root / "out").symlink_to("../outside")
    (root / "loop").symlink_to(".")

    found = list_changes(before, root)

    assert [(change.path, change.link, change.content) for change in found] == [
        ("loop", ".", None),
        ("out", "../outside", None),
    ]


def test_file_that_became_a_link_is_changed(root: Path) -> None:
    before = take_snapshot(root)
    (root / "b.txt").unlink()
    (root / "b.txt").symlink_to("src/a.py")

    assert names(list_changes(before, root)) == [("b.txt", "changed")]
    assert take_snapshot(root).entries["b.txt"].sha256 is None


def test_directory_that_became_a_file_is_told_by_its_files(root: Path) -> None:
    before = take_snapshot(root)
    (root / "src" / "a.py").unlink()
    (root / "src").rmdir()
    (root / "src").write_text("x")

    assert names(list_changes(before, root)) == [("src", "added"), ("src/a.py", "deleted")]


def test_pipes_and_sockets_are_recorded_and_never_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = take_snapshot(root)
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's path may be no longer than 107 bytes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")

        found = list_changes(before, root)

    assert names(found) == [("pipe", "added"), ("socket", "added")]
    assert all(change.content is None for change in found)
    assert take_snapshot(root).entries["pipe"].kind == "other"


def test_name_that_is_not_utf8_keeps_its_bytes(root: Path) -> None:
    before = take_snapshot(root)
    with open(os.fsencode(root) + b"/\xff", "wb") as file:  # noqa: PTH123 - pathlib takes no bytes
        file.write(b"x")

    found = list_changes(before, root)

    assert names(found) == [("\udcff", "added")]
    assert found[0].content == b"x"


def test_large_file_is_told_without_its_content(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = take_snapshot(root)
    with (root / "large").open("wb") as file:
        file.truncate(tree.MAX_CONTENT_BYTES + 1)

    found = list_changes(before, root)

    assert names(found) == [("large", "added")]
    assert found[0].content is None


def test_contents_beyond_the_total_are_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_TOTAL_CONTENT_BYTES", 10)
    before = take_snapshot(root)
    for name in ("x", "y"):
        (root / name).write_bytes(b"1234567")

    found = list_changes(before, root)

    assert sorted(change.content is None for change in found) == [False, True]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_told_without_content(root: Path) -> None:
    before = take_snapshot(root)
    (root / "b.txt").chmod(0)
    (root / "src").chmod(0)

    found = list_changes(before, root)
    (root / "src").chmod(0o700)

    assert names(found) == [("b.txt", "changed"), ("src", "added"), ("src/a.py", "deleted")]


def test_very_deep_directories_end_the_walk_quietly(root: Path) -> None:
    before = take_snapshot(root)
    here = os.open(root, os.O_RDONLY)
    for _ in range(30):  # 30 x 201 bytes is more than a path can have
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    found = list_changes(before, root)

    assert len(found) == 1
    assert found[0].content is None


def test_link_in_the_place_of_the_root_is_not_followed(root: Path, tmp_path: Path) -> None:
    before = take_snapshot(root)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "private").write_text("not ours")
    root.rename(tmp_path / "moved")
    root.symlink_to(tmp_path / "elsewhere")

    found = list_changes(before, root)

    assert {change.change for change in found} == {"deleted"}
    assert "private" not in {change.path for change in found}


def test_missing_root_is_told_apart(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        take_snapshot(root / "gone")
    assert names(list_changes(take_snapshot(root), root / "gone")) == [("b.txt", "deleted"), ("src/a.py", "deleted")]
