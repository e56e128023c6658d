from __future__ import annotations

import os
from pathlib import Path

import pytest

from providers.system.removal import remove_tree


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    root = tmp_path / "hostile"
    (root / "locked" / "inner" / "more").mkdir(parents=True)
    (root / "locked" / "inner" / "file").write_text("x")
    (root / ".removing-0").write_text("in the way")
    (root / ".removing-1" / "full").mkdir(parents=True)
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to(root)
    (root / os.fsdecode(b"not-\xff-text")).touch()
    return root


def test_read_only_and_odd_things_go(hostile: Path) -> None:
    for path in (hostile / "locked" / "inner" / "more", hostile / "locked" / "inner", hostile / "locked", hostile):
        path.chmod(0)
    assert remove_tree(hostile)
    assert not os.path.lexists(hostile)


def test_links_are_removed_and_never_followed(hostile: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch(mode=0o400)
    (hostile / "away").symlink_to(outside)
    (hostile / "locked" / "inner" / "away").symlink_to(outside / "precious")
    assert remove_tree(hostile)
    assert (outside / "precious").exists()
    link = tmp_path / "link"
    link.symlink_to(outside)
    assert remove_tree(link)
    assert (outside / "precious").exists()


def test_depth_costs_neither_stack_nor_descriptors(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert remove_tree(root)
    assert not root.exists()


def test_a_bounded_removal_stops_and_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "many"
    for folder in range(4):
        (root / str(folder)).mkdir(parents=True)
        for name in range(25):
            (root / str(folder) / str(name)).touch()
    tries = 1
    while not remove_tree(root, at_most=10):
        tries += 1
    assert 2 < tries < 40
    assert not root.exists()


def test_what_is_not_there_is_removed_already(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "nothing" / "at all")
