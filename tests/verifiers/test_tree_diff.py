from __future__ import annotations

import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from store.rows import FileChange
from verifiers.base import Evidence
from verifiers.tree_diff import MAX_LISTED_PATHS, TreeDiffWithin, covers_path

NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("entry", "path", "covered"),
    [
        ("src/add.py", "src/add.py", True),
        ("./src/add.py", "src/add.py", True),
        ("src/add.py", "src/add.pyc", False),
        ("src/", "src/deep/add.py", True),
        ("src/", "srcs/add.py", False),
        ("src", "src/add.py", False),
        ("src/", "src", False),
        ("/", "anything", False),
        ("*.py", "add.py", True),
        ("*.py", "src/add.py", False),
        ("**/*.py", "add.py", True),
        ("**/*.py", "a/b/add.py", True),
        ("src/**", "src/a/b", True),
        ("tests/*/", "tests/unit/deep/x", True),
        ("?.txt", "a.txt", True),
        ("?.txt", "/.txt", False),
        ("a[b].txt", "a[b].txt", True),
        ("a[b]*", "ab", False),
        ("*", "a\nb", True),
        ("SRC/", "src/add.py", False),
        ("odd*name", "odd*name", True),
    ],
)
def test_entries_cover(entry: str, path: str, covered: bool) -> None:
    assert covers_path([entry], path) is covered


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_every_path_is_covered_by_itself_by_its_directory_and_by_two_stars(parts: list[str]) -> None:
    path = "/".join(parts)
    assert covers_path([path], path)
    assert covers_path(["**"], path)
    if len(parts) > 1 and not set("*?") & set(parts[0]) and parts[0] != ".":
        assert covers_path([parts[0] + "/"], path)


MEANINGS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@given(st.text("ab/*?", min_size=1, max_size=9), st.text("ab/", min_size=1, max_size=9))
def test_patterns_match_as_their_regular_expressions(entry: str, path: str) -> None:
    assume("*" in entry or "?" in entry)
    whole = entry.removeprefix("./") + ("**" if entry.endswith("/") else "")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", whole)
    pattern = "".join(MEANINGS.get(part, re.escape(part)) for part in parts)
    assert covers_path([entry], path) == (entry == path or re.fullmatch(pattern, path, re.DOTALL) is not None)


@pytest.mark.parametrize(
    "entry", ["*a*a*a*a*a*a*a*a*b", "**/a**a**a**a**a**a/**/b", "a?*a?*a?*a?*a?*b", "**/**/**/**/**/b"]
)
@pytest.mark.parametrize("name", ["a" * 255, "a/" * 2047 + "a"])
def test_no_name_makes_matching_slow(entry: str, name: str) -> None:
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert not covers_path([entry], name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - begun < 1


@pytest.mark.anyio
async def test_changes_outside_are_named_and_counted(evidence: Callable[..., Evidence], workspace: Path) -> None:
    (workspace / "src" / "add.py").write_text("new")
    (workspace / "check.py").unlink()
    for number in range(MAX_LISTED_PATHS):
        (workspace / f"new-{number}").touch()
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").touch()
    said = await TreeDiffWithin(id="scope", allowed=("src/add.py",)).verify(evidence())
    assert said.verdict == "fail"
    assert said.detail["count"] == MAX_LISTED_PATHS + 1
    assert len(said.detail["outside"]) == MAX_LISTED_PATHS
    assert said.detail["outside"][0] == {"path": "check.py", "change": "deleted"}


@pytest.mark.anyio
async def test_nothing_changed_is_within_anything(evidence: Callable[..., Evidence]) -> None:
    assert (await TreeDiffWithin(id="scope", allowed=()).verify(evidence())).verdict == "pass"


@pytest.mark.anyio
async def test_a_name_that_is_not_text_is_judged_like_any_other(evidence: Callable[..., Evidence]) -> None:
    odd = FileChange(path="src/\udcff", change="added")
    assert (await TreeDiffWithin(id="s", allowed=("src/",)).verify(evidence(changes=(odd,)))).verdict == "pass"
