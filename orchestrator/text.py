"""Text for terminals and pages: harmless forms of untrusted text, counted nouns, shortened lists, aligned columns."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from store.documents.text import escape_letter

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # titles, clipboard, links, queries
    r"|\x1b[ -/]*[0-~]"  # character sets, resets
)

_MARKUP = re.compile(r"([\\`*_\[\]#|~$]|:(?=//)|@(?=\S*\.)|(?<=www)\.)", re.IGNORECASE)
"""Characters that open code, emphasis, links, references, tables or formulas, or turn a bare address into a link."""
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
MAX_CELL_CHARACTERS = 300
"""Maximum length of one cell of a table."""

_KEPT_CONTROLS = {"\n", "\t"}
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's Default_Ignorable_Code_Point: characters that are not drawn, some of them letters by their category."""
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories without a visible shape: controls, direction marks, lone surrogates, line separators."""


def make_harmless(text: str) -> str:
    """Remove control sequences and letters that are not drawn from *text*; escape other invisible characters.

    Newlines and tabs stay. The result cannot move a cursor, change a title, or reorder the text beside it.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _IGNORABLE.sub(
        "",
        "".join(
            letter
            if letter in _KEPT_CONTROLS or unicodedata.category(letter) not in _INVISIBLE_CATEGORIES
            else _escape_match(letter)
            for letter in kept
        ),
    )


def one_line(text: str, max_length: int = 200) -> str:
    """Make *text* harmless, put it on one line, and shorten it to *max_length* characters."""
    line = " ".join(make_harmless(text[: max_length * 4]).split())
    return line if len(line) <= max_length and len(text) <= max_length * 4 else line[: max_length - 1] + "…"


def escape_markdown(text: str, max_length: int = MAX_CELL_CHARACTERS) -> str:
    """Escape *text* as one line of Markdown that contains no HTML, link, code, table or emphasis."""
    return _MARKUP.sub(r"\\\1", one_line(text, max_length)).translate(_ENTITIES)


def indent_text(text: str, max_length: int = 500) -> str:
    """Make *text* harmless and indent all lines but the first, so that none looks like a line of this program.

    Each line has at most *max_length* characters; only four times as many characters of *text* are used.
    """
    lines = [make_harmless(line.strip()) for line in text[: max_length * 4].splitlines() if line.strip()]
    return "\n  ".join(line if len(line) <= max_length else line[: max_length - 1] + "…" for line in lines)


def format_count(number: int, noun: str, nouns: str | None = None) -> str:
    """Format a counted noun: `1 run`, `2 runs`; *nouns* is the plural if it is not *noun* with an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def list_names(names: Iterable[str], at_most: int = 10, *, noun: str = "") -> str:
    """List the first *at_most* names and count the others: `a, b and 3 more`; with a *noun*, `3 more NOUN`."""
    known = list(names)
    if len(known) <= at_most:
        return ", ".join(known)
    return f"{', '.join(known[:at_most])} and {len(known) - at_most} more{noun and f' {noun}'}"


def list_lines(lines: Iterable[str], at_most: int) -> Iterator[str]:
    """Yield the first *at_most* lines, indented by two spaces, and a last one that counts the others."""
    known = list(lines)
    yield from (f"  {line}" for line in known[:at_most])
    if len(known) > at_most:
        yield f"  and {len(known) - at_most} more"


def align_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line per row with the cells aligned in columns, without trailing spaces."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def format_json(document: object, *, indent: int | None = None, compact: bool = False) -> str:
    """Render *document* as JSON in plain ASCII, so that no terminal obeys or hides a character of it.

    It is one line unless *indent* is given; *compact* leaves out the spaces.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    separators = (",", ":") if compact else None
    return json.dumps(document, ensure_ascii=True, allow_nan=False, indent=indent, separators=separators)


def make_printable(text: str, encoding: str | None) -> str:
    """Escape the characters of *text* that a stream of that encoding cannot write."""
    known = encoding or "utf-8"
    return text.encode(known, "backslashreplace").decode(known)


def _escape_match(letter: str) -> str:
    return f"\\x{ord(letter):02x}" if ord(letter) < 0x100 else escape_letter(letter)
