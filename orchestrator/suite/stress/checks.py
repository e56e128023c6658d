"""Verifiers of generated tasks, as `suite.json` writes them.

What is expected is told as a hash and the programs that check stand in `suite.json`, not in the fixture: a model that
has lost what it was told must not find it again in its workspace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from store.events import Json

TIMEOUT_MS = 30_000

_RULE = """\
import hashlib, re, sys
text = open(sys.argv[1], encoding="utf-8", newline="").read()
lines = text.rstrip("\\n").split("\\n")
{judged}
sys.exit(0 if held else "the rule does not hold")
"""

LINES = (
    'held = hashlib.sha256("\\n".join(map(str.strip, text.strip().split("\\n"))).encode()).hexdigest() == sys.argv[2]'
)
"""All lines are the expected ones, blanks around them apart."""

CODES = """\
found = "\\n".join(re.findall("[a-z]+-[a-z]+-[0-9][0-9]", text.lower()))
held = hashlib.sha256(found.encode()).hexdigest() == sys.argv[2]"""
"""The expected codes and no others, in their order, whatever they are wrapped in."""

LINE_SHAPE = """\
body = lines[lines[0].startswith("#"):len(lines) - lines[-1].startswith("--")]
shape = "{:02}~[A-Z]+-[A-Z]+-[0-9][0-9]"
held = len(body) == int(sys.argv[2]) and all(re.fullmatch(shape.format(n), line) for n, line in enumerate(body, 1))"""
"""NN~CODE in capitals, one line for each segment; a header and a footer, there or not, are for other rules."""

HEADER = 'held = lines[0] == "# walk-report"'
FOOTER = 'held = lines[-1] == "-- end of walk --" and text.endswith("--\\n") and not text.endswith("\\n\\n")'

LINE_FORM = """\
form = "{:02}[|][a-z]+-[a-z]+-[0-9][0-9]:"
held = len(lines) == int(sys.argv[2]) and all(re.fullmatch(form.format(n), line) for n, line in enumerate(lines, 1))"""
"""NN|CODE: and nothing after it."""


def make_program_check(name: str, condition: str, *arguments: str) -> dict[str, Json]:
    """A `command` that passes where *judged* sets `held`; it sees `text` and `lines` of the file that the first of
    *arguments* names. Nothing in the workspace can get between it and Python's own modules.
    """
    return {
        "kind": "command",
        "id": name,
        "command": ["python3", "-ISc", _RULE.format(judged=condition), *arguments],
        "timeoutMs": TIMEOUT_MS,
    }


def make_lines_check(name: str, path: str, expected: Iterable[str]) -> dict[str, Json]:
    """The file holds exactly the *expected* lines."""
    return make_program_check(name, LINES, path, hash_content("\n".join(expected)))


def make_codes_check(name: str, path: str, expected: Iterable[str]) -> dict[str, Json]:
    """The file names exactly the *expected* codes, in their order."""
    return make_program_check(name, CODES, path, hash_content("\n".join(expected)))


def make_file_check(name: str, path: str, content: str) -> dict[str, Json]:
    """The file is *content* to the byte."""
    return {"kind": "file-equals", "id": name, "path": path, "sha256": hash_content(content)}


def make_scope_check(name: str, *allowed: str) -> dict[str, Json]:
    """Nothing else was changed."""
    return {"kind": "tree-diff-within", "id": name, "allowed": [*allowed]}


def make_tool_rule(name: str, **words: Json) -> dict[str, Json]:
    """A rule over the tools that were called."""
    return {"kind": "tool-sequence", "id": name, "rule": {**words}}


def hash_content(content: str) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content.encode()).hexdigest()
