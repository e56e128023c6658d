"""The tool `search_text`: searches the workspace for a regular expression."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from providers.agent.tools import Tool, ToolContext, ToolFailed, build_parameters, integer_up_to
from providers.base import ToolSpec
from providers.system.paths import resolve_inside
from providers.system.process import FinishedProcess, run_process
from providers.system.tree import IGNORED_NAMES
from store.events import Json

DEFAULT_RESULTS = 100
MAX_RESULTS = 500
MAX_CHARS = 28_000
"""Characters of all matches together."""
MAX_LINE_CHARS = 400
"""Characters of one line that are returned."""
MAX_PATTERN_CHARS = 1000
MAX_FILE_BYTES = 2 << 20
"""Largest file that is searched."""
WALL_TIMEOUT_S = 10.0
"""Seconds of wall time. The search is also limited in processor time; this ends one that waits for a disk."""

_SEARCHER_PATH = Path(__file__).with_name("searcher.py")
_TIMEOUT_EXIT_CODES = (-signal.SIGXCPU, -signal.SIGKILL, None)


async def search_text(place: ToolContext, arguments: Mapping[str, Json]) -> str:
    """Search for lines that match; returns them as `path:line: text`.

    Raises:
        ToolFailed: the pattern is invalid, or the path does not exist.
    """
    pattern, relative = arguments["pattern"], arguments.get("path", ".")
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise ToolFailed(f"pattern must have from 1 to {MAX_PATTERN_CHARS} characters")
    path = resolve_inside(place.workspace, relative)
    if not path.exists():
        raise ToolFailed(f"{relative} does not exist")
    finished = await run_process(
        [
            sys.executable,
            "-I",
            "-S",
            str(_SEARCHER_PATH),
            json.dumps(_build_search_arguments(path, relative, arguments)),
        ],
        cwd=place.workspace,
        environment={"LC_ALL": "C.UTF-8"},
        marker=place.marker,
        timeout_s=WALL_TIMEOUT_S,
        output_limit=12 * MAX_CHARS + 40 * MAX_RESULTS,  # JSON writes a character beyond the BMP with twelve bytes
        grace_s=0.1,
    )
    return _render_matches(finished)


def _build_search_arguments(path: Path, relative: str, arguments: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "pattern": arguments["pattern"],
        "root": str(path),
        "shown": "/".join(part for part in relative.split("/") if part not in ("", ".")),
        "ignored": sorted(IGNORED_NAMES),
        "maxResults": arguments.get("maxResults", DEFAULT_RESULTS),
        "maxChars": MAX_CHARS,
        "maxLine": MAX_LINE_CHARS,
        "maxBytes": MAX_FILE_BYTES,
    }


def _render_matches(finished: FinishedProcess) -> str:
    *whole, _cut = finished.stdout.split(b"\n")
    rows = [json.loads(line) for line in whole]
    end = rows[-1] if rows and isinstance(rows[-1], dict) else None
    if end is not None and "error" in end:
        raise ToolFailed(f"pattern is no regular expression: {end['error']}")
    stopped = end is None and finished.exit_code in _TIMEOUT_EXIT_CODES
    if end is None and not stopped:
        raise ToolFailed("the search broke off; give a simpler pattern or a smaller path")
    matches = [f"{item[0]}:{item[1]}: {item[2]}" for item in rows if isinstance(item, list)]
    return json.dumps(
        {
            "matches": matches,
            "truncated": end is None or end["truncated"],
            "outOfTime": stopped,
            "filesSkipped": end["skipped"] if end is not None else None,
        },
        ensure_ascii=False,
    )


SEARCH_TEXT = Tool(
    spec=ToolSpec(
        name="search_text",
        description=(
            "Search the text files below a directory, or one file, line by line for a regular expression (Python "
            "syntax, case-sensitive; (?i) in front ignores case). Returns the matching lines as path:line: text. "
            "Left out: .git, node_modules and __pycache__, links, binary files, and files of more than "
            f"{MAX_FILE_BYTES >> 20} MiB. A search may take one second of processor time; truncated says whether there "
            "may be more matches."
        ),
        input_schema=build_parameters(
            required=("pattern",),
            pattern={"type": "string", "description": "A regular expression."},
            path={
                "type": "string",
                "description": "A directory or file, relative to the workspace; the whole workspace unless given.",
            },
            maxResults=integer_up_to(MAX_RESULTS, f"How many matches; {DEFAULT_RESULTS} unless given."),
        ),
    ),
    effect="read",
    run=search_text,
)
