"""Escaping for TEXT columns and messages, and cutting text at word boundaries so that no half of a credential stays.

SQLite cannot bind lone surrogates, and NUL ends a string for half of its functions; file names and model output may
hold both. JSON columns need no escaping here, because their encoder escapes by itself.
"""

from __future__ import annotations

import re

MAX_WORD_CHARACTERS = 512
"""Largest number of characters dropped from a text that was cut inside a word."""
_WORD_SEPARATOR = re.compile(r"""[\s"'`{}\[\](),;<>|]""")
"""A separator between words; occurs in no credential, nor in its base64 or percent encoding."""

_UNBINDABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|u[0-9a-f]{4})")


def drop_last_word(text: str) -> str:
    """Drop the last word of *text*, which was cut there: a redactor does not recognise half a credential.

    If the text ends in one long word, drops its last 512 characters.
    """
    tail = text[-MAX_WORD_CHARACTERS:]
    spaces = [space.end() for space in _WORD_SEPARATOR.finditer(tail)]
    return text[: len(text) - len(tail) + (spaces[-1] if spaces else 0)]


def drop_first_word(text: str) -> str:
    """Drop the first word of a text whose beginning was cut off."""
    head = text[:MAX_WORD_CHARACTERS]
    space = _WORD_SEPARATOR.search(head)
    return text[space.start() if space else len(head) :]


def escape_letter(letter: str) -> str:
    r"""Escape *letter* as `\uXXXX`, or as `\UXXXXXXXX` beyond the first 65,536 code points."""
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape_unprintable(text: str) -> str:
    r"""Escape unprintable characters as `\uXXXX`, line ends and tabs too: one line for a message."""
    return text if text.isprintable() else "".join(char if char.isprintable() else escape_letter(char) for char in text)


def blank_unprintable(text: str) -> str:
    """Replace every unprintable character, including line ends and tabs, by a space."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def to_column(text: str) -> str:
    r"""Escape NUL and lone surrogates as `\uXXXX`; different texts stay different.

    A text that needs no escape and contains no `\u` stays unchanged; in any other text, backslashes are doubled.
    """
    if "\\u" not in text and not _UNBINDABLE.search(text):
        return text
    return _UNBINDABLE.sub(lambda match: escape_letter(match[0]), text.replace("\\", "\\\\"))


def from_column(text: str) -> str:
    """Undo `to_column`."""
    if "\\u" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\\" if match[1] == "\\" else chr(int(match[1][1:], 16)), text)
