from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.system.paths import PathEscapes, check_relative, keep_absolute_entries, resolve_inside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a")
    (tmp_path / "secret").write_text("s")
    return root


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("..", r"\.\."),
        ("../secret", r"\.\."),
        ("src/../../secret", r"\.\."),
        ("src/..", r"\.\."),
        ("/etc/passwd", "absolute"),
        ("//etc/passwd", "absolute"),
        ("C:/Windows", "absolute"),
        ("..\\secret", "backslash"),
        ("src\\a.py", "backslash"),
        ("a\0b", "NUL"),
        ("\ud800", "no file name"),
        ("a" * 256, "too long"),
        ("a/" * 3000, "too long"),
    ],
)
def test_text_that_is_no_path_inside_is_refused_with_the_reason(root: Path, text: str, problem: str) -> None:
    with pytest.raises(PathEscapes, match=problem):
        resolve_inside(root, text)

    assert check_relative(text) is not None


@pytest.mark.parametrize("text", ["src/a.py", "./src/a.py", "src//a.py", "src/./a.py"])
def test_ways_to_write_the_same_path_lead_to_the_same_place(root: Path, text: str) -> None:
    assert resolve_inside(root, text) == root / "src" / "a.py"


@pytest.mark.parametrize("text", ["...", "..a", "a..", "~", "-rf", "a b", "ä", "\udcff", "c:d"])
def test_odd_names_are_names(root: Path, text: str) -> None:
    assert resolve_inside(root, text) == root / text


def test_root_itself_is_inside(root: Path) -> None:
    assert resolve_inside(root, ".") == root


def test_place_that_does_not_exist_is_told_all_the_same(root: Path) -> None:
    assert resolve_inside(root, "new/dir/file") == root / "new/dir/file"


def test_root_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)

    assert resolve_inside(tmp_path / "alias", "src/a.py") == root / "src/a.py"


@pytest.mark.parametrize("target", ["/etc", "../..", "..", "../secret", "src/../../secret"])
def test_link_that_leaves_is_refused(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)

    with pytest.raises(PathEscapes, match="outside"):
        resolve_inside(root, "link")
    with pytest.raises(PathEscapes, match="outside"):
        resolve_inside(root, "link/passwd")


def test_link_to_a_sibling_with_the_roots_name_as_prefix_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "root-2").mkdir()
    (root / "link").symlink_to(tmp_path / "root-2")

    with pytest.raises(PathEscapes, match="outside"):
        resolve_inside(root, "link")


def test_chain_of_links_is_judged_by_where_it_ends(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("/etc/passwd")
    (root / "three").symlink_to("src")

    with pytest.raises(PathEscapes):
        resolve_inside(root, "one")
    assert resolve_inside(root, "three/a.py") == root / "src" / "a.py"


def test_dangling_link_is_judged_by_where_it_would_lead(root: Path, tmp_path: Path) -> None:
    (root / "inside").symlink_to("src/new")
    (root / "outside").symlink_to(tmp_path / "new")

    assert resolve_inside(root, "inside") == root / "src" / "new"
    with pytest.raises(PathEscapes):
        resolve_inside(root, "outside")


def test_link_to_itself_is_refused(root: Path) -> None:
    (root / "loop").symlink_to("loop")

    with pytest.raises(PathEscapes, match="back to itself"):
        resolve_inside(root, "loop")


def test_message_shows_at_most_a_part_of_a_long_path(root: Path) -> None:
    with pytest.raises(PathEscapes) as caught:
        resolve_inside(root, "../" * 10_000)

    assert len(str(caught.value)) < 300


@given(text=st.text(st.sampled_from("ab./\\\0:~\ud800"), max_size=12) | st.text(max_size=20))
def test_nothing_leads_outside(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        try:
            place = resolve_inside(root, text)
        except PathEscapes:
            assert check_relative(text) is not None
        else:
            assert place == root or root in place.parents


@pytest.mark.parametrize(
    ("search", "kept"),
    [
        ("/bin:/usr/bin", "/bin:/usr/bin"),
        ("node_modules/.bin:/bin", "/bin"),
        (":/bin", "/bin"),
        ("/bin:", "/bin"),
        ("/a::/b", "/a:/b"),
        (".:./x:../y:~/bin:/bin", "/bin"),
        ("", os.defpath),
        (".", os.defpath),
    ],
)
def test_relative_and_empty_entries_of_a_path_are_dropped(search: str, kept: str) -> None:
    assert keep_absolute_entries(search) == kept
