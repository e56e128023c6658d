import json
import os
from pathlib import Path
from typing import Any

import pytest

from providers.agent import search
from providers.agent.search import SEARCH_TEXT, search_text
from providers.agent.tools import ToolContext, ToolFailed
from providers.system.paths import PathEscapes

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(workspace: Path) -> ToolContext:
    return ToolContext(workspace=workspace, marker="sweep-1a2b3c4d/0/1", home=lambda: workspace)


def write(workspace: Path, **files: Any) -> None:
    for name, content in files.items():
        path = workspace / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


async def found(place: ToolContext, pattern: str, **arguments: Any) -> dict[str, Any]:
    return json.loads(await search_text(place, {"pattern": pattern, **arguments}))


async def test_matching_lines_come_in_the_order_of_their_paths(place: ToolContext, workspace: Path) -> None:
    write(workspace, b="zwei\nx = 12\n", a__deep="  y = 7  \r\n", a__b="nothing")

    assert await found(place, r"\w = \d+") == {
        "matches": ["a/deep:1: y = 7", "b:2: x = 12"],
        "truncated": False,
        "outOfTime": False,
        "filesSkipped": 0,
    }


@pytest.mark.parametrize(("path", "names"), [("a", ["a/b", "a/c"]), ("./a/", ["a/b", "a/c"]), ("a/c", ["a/c"])])
async def test_a_directory_or_a_file_can_be_searched_alone(
    place: ToolContext, workspace: Path, path: str, names: list[str]
) -> None:
    write(workspace, a__b="x", a__c="x", d="x")

    assert [match.partition(":")[0] for match in (await found(place, "x", path=path))["matches"]] == names


async def test_what_is_no_text_or_too_large_or_a_link_is_left_out(
    place: ToolContext, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_FILE_BYTES", 100)
    outside = workspace.parent / "secret"
    outside.write_text("x")
    write(workspace, kept="x", binary=b"x\0", large="x" * 101, node_modules__m="x", a__node_modules__m="x")
    write(workspace, latin=b"caf\xe9 x")
    (workspace / "link").symlink_to(outside)
    (workspace / "folder").symlink_to(workspace.parent)
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("x")
    os.mkfifo(workspace / "pipe")

    result = await found(place, "x")
    assert result["matches"] == ["kept:1: x", "latin:1: caf\N{REPLACEMENT CHARACTER} x"]
    assert result["filesSkipped"] == 3


async def test_results_and_lines_are_bounded(place: ToolContext, workspace: Path) -> None:
    write(workspace, a="x\n" * 1000, b="y" * 100_000)

    few = await found(place, "x", maxResults=3)
    assert (few["matches"], few["truncated"]) == (["a:1: x", "a:2: x", "a:3: x"], True)
    assert len((await found(place, "x"))["matches"]) == search.DEFAULT_RESULTS
    assert (await found(place, "y"))["matches"] == [f"b:1: {'y' * search.MAX_LINE_CHARS}"]


async def test_as_many_matches_as_asked_for_are_all_there_were(place: ToolContext, workspace: Path) -> None:
    write(workspace, a="x\nx\n")

    assert (await found(place, "x", maxResults=2))["truncated"] is False


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)+$", "a?" * 200 + "a" * 200])
async def test_pattern_that_would_go_on_for_ever_is_stopped_and_what_was_found_is_told(
    place: ToolContext, workspace: Path, pattern: str
) -> None:
    write(workspace, a="a" * 200, b="a" * 5000 + "b")

    result = await found(place, pattern)
    assert (result["outOfTime"], result["truncated"]) == (True, True)
    assert result["matches"][:1] in ([], [f"a:1: {'a' * 200}"])


@pytest.mark.parametrize("pattern", ["(", "(?P<x>a)(?P<x>b)", "[z-a]", "a{99999999999999999999}", "x" * 1001, ""])
async def test_what_is_no_pattern_is_refused(place: ToolContext, pattern: str) -> None:
    with pytest.raises(ToolFailed, match="pattern"):
        await found(place, pattern)


async def test_place_that_is_not_there_or_not_inside_is_refused(place: ToolContext, workspace: Path) -> None:
    (workspace / "out").symlink_to("/etc")

    with pytest.raises(ToolFailed, match="does not exist"):
        await found(place, "x", path="nowhere")
    for path in ("../home", "/etc", "out"):
        with pytest.raises(PathEscapes):
            await found(place, "root", path=path)


async def test_names_and_lines_that_are_no_text_do_no_harm(place: ToolContext, workspace: Path) -> None:
    (workspace / "\udcff\nname").write_bytes(b"x \x1b[31m \xed\xa0\x80")

    (match,) = (await found(place, "x"))["matches"]
    assert match.startswith("\udcff\nname:1: x \x1b[31m")


async def test_matches_that_take_the_most_bytes_to_write_are_all_told(place: ToolContext, workspace: Path) -> None:
    write(workspace, a=("\N{GRINNING FACE}" * search.MAX_LINE_CHARS + "\n") * 200)

    result = await found(place, ".", maxResults=search.MAX_RESULTS)
    assert len(result["matches"]) == search.MAX_CHARS // (search.MAX_LINE_CHARS + 1)
    assert result["truncated"] is True


def test_it_only_reads_and_is_described() -> None:
    assert SEARCH_TEXT.effect == "read"
    assert SEARCH_TEXT.spec.input_schema["required"] == ["pattern"]
