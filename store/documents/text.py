"""Text that a column or a message cannot take as it is: escaped letters, and words that a cut may have halved.

Text in a TEXT column of its own is escaped where SQLite cannot hold it, and comes back unharmed. Lone surrogates cannot
be bound at all, and NUL ends a string for half of SQLite's functions. File names and whatever a model chose may hold
both. JSON columns need none of this: their encoder escapes by itself.
"""

from __future__ import annotations

import re

LONGEST_WORD = 512
"""Characters that are given up at most where a text was cut in a word."""
_SPACE = re.compile(r"""[\s"'`{}\[\](),;<>|]""")
"""Stands between words; in no credential, nor in what base64 and percent codes make of one."""

_UNFIT = re.compile("[\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|u[0-9a-f]{4})")


def without_last_word(text: str) -> str:
    """*text*, which was cut, without the word that may have been cut in two: half a credential is not recognised.

    Where the end is one long word, its last 512 characters go.
    """
    tail = text[-LONGEST_WORD:]
    spaces = [space.end() for space in _SPACE.finditer(tail)]
    return text[: len(text) - len(tail) + (spaces[-1] if spaces else 0)]


def without_first_word(text: str) -> str:
    """The same for a text whose beginning was cut off."""
    head = text[:LONGEST_WORD]
    space = _SPACE.search(head)
    return text[space.start() if space else len(head) :]


def escape_letter(letter: str) -> str:
    r"""*letter* as `\uXXXX`, or as `\UXXXXXXXX` beyond the first 65,536 code points."""
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape_unprintable(text: str) -> str:
    r"""*text* on one line for a message: unprintable letters, line ends and tabs too, as `\uXXXX`."""
    return text if text.isprintable() else "".join(char if char.isprintable() else escape_letter(char) for char in text)


def blank_unprintable(text: str) -> str:
    """*text* with a space for every letter that cannot be printed; line ends and tabs count as such."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def to_column(text: str) -> str:
    r"""*text* with NUL and lone surrogates as `\uXXXX`; different texts stay different.

    A text that needs no escape and shows none (`\u`) is kept as it is; in every other one backslashes are doubled.
    """
    if "\\u" not in text and not _UNFIT.search(text):
        return text
    return _UNFIT.sub(lambda found: escape_letter(found[0]), text.replace("\\", "\\\\"))


def from_column(text: str) -> str:
    """The inverse of `to_column`."""
    if "\\u" not in text:
        return text
    return _ESCAPE.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), text)
