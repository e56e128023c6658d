"""Verifiers of generated tasks, in the form of `suite.json`.

Expected results are hashes, and the checking programs are in `suite.json` and not in the fixture: a model that has lost
the instructions must not find them in its workspace.
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
{condition}
sys.exit(0 if held else "the rule does not hold")
"""

LINES = (
    'held = hashlib.sha256("\\n".join(map(str.strip, text.strip().split("\\n"))).encode()).hexdigest() == sys.argv[2]'
)
"""All lines are the expected ones, apart from blanks around them."""

CODES = """\
found = "\\n".join(re.findall("[a-z]+-[a-z]+-[0-9][0-9]", text.lower()))
held = hashlib.sha256(found.encode()).hexdigest() == sys.argv[2]"""
"""The file contains the expected codes and no others, in their order, in any format."""

LINE_SHAPE = """\
body = lines[lines[0].startswith("#"):len(lines) - lines[-1].startswith("--")]
shape = "{:02}~[A-Z]+-[A-Z]+-[0-9][0-9]"
held = len(body) == int(sys.argv[2]) and all(re.fullmatch(shape.format(n), line) for n, line in enumerate(body, 1))"""
"""Each segment has one line NN~CODE in capitals. Other rules check the header and the footer."""

HEADER = 'held = lines[0] == "# walk-report"'
FOOTER = 'held = lines[-1] == "-- end of walk --" and text.endswith("--\\n") and not text.endswith("\\n\\n")'

LINE_FORM = """\
form = "{:02}[|][a-z]+-[a-z]+-[0-9][0-9]:"
held = len(lines) == int(sys.argv[2]) and all(re.fullmatch(form.format(n), line) for n, line in enumerate(lines, 1))"""
"""Each line has the form `NN|CODE:` with nothing after it."""


def make_program_check(name: str, condition: str, *arguments: str) -> dict[str, Json]:
    """Make a `command` verifier that passes if the Python statements *condition* set `held`.

    The statements can use `text` and `lines` of the file that the first of *arguments* names. No file of the workspace
    can replace a module of Python.
    """
    return {
        "kind": "command",
        "id": name,
        "command": ["python3", "-ISc", _RULE.format(condition=condition), *arguments],
        "timeoutMs": TIMEOUT_MS,
    }


def make_lines_check(name: str, path: str, expected: Iterable[str]) -> dict[str, Json]:
    """Make a verifier that the file has exactly the *expected* lines."""
    return make_program_check(name, LINES, path, hash_content("\n".join(expected)))


def make_codes_check(name: str, path: str, expected: Iterable[str]) -> dict[str, Json]:
    """Make a verifier that the file contains exactly the *expected* codes, in their order."""
    return make_program_check(name, CODES, path, hash_content("\n".join(expected)))


def make_file_check(name: str, path: str, content: str) -> dict[str, Json]:
    """Make a verifier that the file has exactly the bytes of *content*."""
    return {"kind": "file-equals", "id": name, "path": path, "sha256": hash_content(content)}


def make_scope_check(name: str, *allowed: str) -> dict[str, Json]:
    """Make a verifier that no path other than *allowed* was changed."""
    return {"kind": "tree-diff-within", "id": name, "allowed": [*allowed]}


def make_tool_rule(name: str, **words: Json) -> dict[str, Json]:
    """Make a verifier with a rule on the called tools."""
    return {"kind": "tool-sequence", "id": name, "rule": {**words}}


def hash_content(content: str) -> str:
    """Return the SHA-256 of *content* in hexadecimal digits."""
    return hashlib.sha256(content.encode()).hexdigest()
