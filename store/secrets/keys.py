"""Keys recognised by their beginning, in any text: fast enough for every event on its way into the store.

One pass finds long words, and a table that is keyed by their first two characters decides which shapes to try. So a
text without a long word costs one search, whatever the number of shapes.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Mapping
from functools import cache

import attrs

from store.secrets.key_table import KEY_SHAPES

MIN_KEY_ENTROPY = 2.6
"""Smallest entropy of a key, in bits per character; 16 or more random hexadecimal digits have at least 3.3."""
MIN_WORD_CHARACTERS = 16
"""Length in characters of the shortest key that is recognised by its beginning."""
MAX_KEY_CHARACTERS = 4200
"""Length in characters of the longest key of the table."""


@attrs.frozen
class SecretMatch:
    """A secret found in a text: its shape and its offsets."""

    shape: str
    start: int
    end: int


_HEAD_CHARACTERS = 2
_DIVIDED_BEGINNINGS = tuple(sorted({head for _, head, _ in KEY_SHAPES if not re.fullmatch("[A-Za-z0-9_-]+", head)}))
"""Beginnings that a character divides which ends a word."""
_DIVIDED_WORD = re.compile(rf"[.~][A-Za-z0-9_.-]{{{MIN_WORD_CHARACTERS}}}")
"""A pattern that every text with a key of such a beginning matches."""
_LONG_WORD = re.compile(rf"[A-Za-z0-9_-]{{{MIN_WORD_CHARACTERS},}}+")
_NEXT_LONG_WORD = re.compile(rf"[^A-Za-z0-9_-][A-Za-z0-9_-]{{{MIN_WORD_CHARACTERS},}}+")
"""A long word and the character before it. Starting with that one lets the engine skip from word to word."""
_BOUNDARY = re.compile(r"(?:\A|[^A-Za-z0-9_-]|\\[bfnrt]|\\u[0-9a-f]{4}|%[0-9A-Fa-f]{2})\Z")


def find_open_key(text: str, begin: int = 0) -> int:
    """Find the first offset, from *begin* on, of a possible key that more text could complete or lengthen.

    Returns `len(text)` if there is none.
    """
    end = len(text)
    near = max(begin, end - MAX_KEY_CHARACTERS)
    run = near + len(text[near:].rstrip(_RUN_CHARACTERS))
    found = _compile_open_pattern().search(text, run) if run < end else None
    return found.start() if found else end


_RUN_CHARACTERS = string.ascii_letters + string.digits + "_-.~+/=@%\\"
"""Characters of keys, and of escapes before them."""


@cache
def _compile_open_pattern() -> re.Pattern[str]:
    """Compile the pattern for a beginning, or for a part of one that reaches the end of the text."""
    guard = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
    return re.compile(guard + _build_open_trie([head for _, head, _ in KEY_SHAPES]))


def _build_open_trie(rests: list[str]) -> str:
    if "" in rests:
        return ""  # a whole beginning: the run of its characters reaches the end
    groups: dict[str, list[str]] = {}
    for rest in rests:
        groups.setdefault(rest[0], []).append(rest[1:])
    branches = (f"{re.escape(first)}(?:{_build_open_trie(group)}|\\Z)" for first, group in sorted(groups.items()))
    return f"(?:{'|'.join(branches)})"


@cache
def _group_by_head() -> Mapping[str, tuple[tuple[str, str, str], ...]]:
    """Group the shapes by their first two characters, those with longer beginnings first."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for shape in KEY_SHAPES:
        groups.setdefault(shape[1][:_HEAD_CHARACTERS], []).append(shape)
    return {head: tuple(sorted(group, key=lambda shape: -len(shape[1]))) for head, group in groups.items()}


@cache
def _compile_key_pattern(beginning: str, rest: str) -> re.Pattern[str]:
    """Compile a key's pattern on first use: compiling all hundred takes a while, and most are never needed.

    The key must end with its word: a longer word is something else.
    """
    return re.compile(f"{re.escape(beginning)}(?:{rest})(?![A-Za-z0-9_])")


def match_key_shapes(text: str, begin: int = 0) -> Iterator[SecretMatch]:
    """Find the keys in *text* whose word starts at *begin* or later; one may lie inside another."""
    if len(text) - begin < MIN_WORD_CHARACTERS:
        return
    shapes = _group_by_head()
    for at in _list_candidates(text, begin):
        for name, beginning, rest in shapes.get(text[at : at + _HEAD_CHARACTERS], ()):
            if not text.startswith(beginning, at):
                continue
            whole = _compile_key_pattern(beginning, rest).match(text, at)
            if whole and is_random_key(whole.group()[len(beginning) :]):
                yield SecretMatch(name, at, whole.end())
                break


def _list_candidates(text: str, begin: int) -> Iterator[int]:
    """Yield the offsets at which a key may start: at long words, and at beginnings that are no words."""
    if not begin and _LONG_WORD.match(text):
        yield 0
    for word in _NEXT_LONG_WORD.finditer(text, max(0, begin - 1)):
        yield from _list_possible_starts(text, word.start() + 1)
    if not _DIVIDED_WORD.search(text, begin):
        return
    for head in _DIVIDED_BEGINNINGS:
        at = text.find(head, begin)
        while at >= 0:
            if not at or _BOUNDARY.search(text[max(0, at - 6) : at]):
                yield at
            at = text.find(head, at + 1)


def _list_possible_starts(text: str, at: int) -> Iterator[int]:
    r"""Yield the possible starts of the word at *at*: there, or after the rest of an escape (`\n`, `%3D`) before it."""
    yield at
    before = text[at - 1] if at else ""
    if before == "\\":
        yield at + 5 if text[at] == "u" else at + 1
    elif before == "%":
        yield at + 2


def is_random_key(body: str) -> bool:
    """Return whether a body can be a key: neither repetitive (`xxxx`, `0000`) nor a placeholder."""
    return has_entropy(body, MIN_KEY_ENTROPY) and not PLACEHOLDER.search(body)


def measure_entropy(text: str) -> float:
    """Compute the Shannon entropy of the first 256 characters, in bits per character."""
    if not text:
        return 0.0
    head = text[:256]
    weights = map(_N_LOG_N.__getitem__, map(head.count, set(head)))
    return math.log2(len(head)) - sum(weights) / len(head)


def has_entropy(body: str, bits: float) -> bool:
    """Return whether the entropy is at least *bits*; the number of distinct characters usually decides."""
    head = body[:256]
    rest = len(head) - len(set(head)) + 1  # the largest share of one character
    return math.log2(len(head)) - _N_LOG_N[rest] / len(head) >= bits or measure_entropy(head) >= bits


_N_LOG_N = (0.0, *(n * math.log2(n) for n in range(1, 257)))

PLACEHOLDER = re.compile(
    r"x{4}|\*{3}|\.{3}|0{8}|example|your[_-]|placeholder|change[_-]?me|dummy|redacted|0123456789|1234567890|abcdefgh",
    re.IGNORECASE,
)
