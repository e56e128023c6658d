"""Redaction of secrets: exact credentials of the environment, and strings with the shape of a known key.

A mark, `[redacted:NAME]`, replaces each secret; NAME is the variable's name or the shape's. A mark of this redactor
passes through unchanged, so that redaction is idempotent.

One regular expression matches everything. Every alternative starts with a literal character, which lets the engine skip
from candidate to candidate; every repetition is bounded, and no two neighbouring repetitions share a character, so
that the time is linear in the length of even hostile text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs

from store.secrets.encoded_forms import list_encoded_forms
from store.secrets.key_table import KEY_SHAPES
from store.secrets.keys import SecretMatch, find_open_key, match_key_shapes

MIN_SECRET_CHARACTERS = 8
"""Smallest length of a secret value; shorter ones would occur everywhere by chance."""

CONTEXT_CHARACTERS = 6
"""Number of preceding characters that decide whether a key may start at a position."""

MARK_PREFIX = "[redacted:"
CREDENTIAL_MARK = f"{MARK_PREFIX}credential]"
"""The mark for a cut secret, whose variable is unknown."""
ELLIPSIS = "…"
"""The ellipsis that marks a cut in a shortened text."""
HEAD_CHARACTERS = 4
"""Number of leading characters of a literal that are compared before the whole."""


@attrs.frozen
class _CharacterRun:
    """A run of `least` to `most` characters of a class."""

    chars: str
    least: int
    most: int


@attrs.frozen
class _KeyShape:
    r"""The shape of a key with a recognisable format: literals and runs, in order.

    A `guarded` shape starts only at the start of a word, at an escape (`\n`) or after a percent code: its prefix is too
    common inside words, or its runs could be made to overlap.
    """

    name: str
    parts: tuple[str | _CharacterRun, ...]
    guarded: bool = False


_WORD = "A-Za-z0-9"
_URL = "A-Za-z0-9_-"
_SHAPES = (
    *(
        _KeyShape("sk-key", (f"sk-{who}-", _CharacterRun(_URL, 20, 512)), guarded=True)
        for who in ("ant", "proj", "or", "svcacct", "admin")
    ),
    _KeyShape("sk-key", ("sk-", _CharacterRun(_WORD, 20, 512)), guarded=True),
    *(_KeyShape("github-token", (f"gh{kind}_", _CharacterRun(_WORD, 30, 255))) for kind in "pousr"),
    _KeyShape("github-token", ("github_pat_", _CharacterRun("A-Za-z0-9_", 22, 255))),
    _KeyShape("gitlab-token", ("glpat-", _CharacterRun(_URL, 20, 255))),
    _KeyShape("aws-key", ("AKIA", _CharacterRun("A-Z0-9", 16, 16))),
    *(_KeyShape("slack-token", (f"xox{kind}-", _CharacterRun("A-Za-z0-9-", 10, 255))) for kind in "bpars"),
    _KeyShape("google-key", ("AIza", _CharacterRun(_URL, 35, 35))),
    _KeyShape(
        "jwt",
        ("eyJ", _CharacterRun(_URL, 8, 4096), ".eyJ", _CharacterRun(_URL, 8, 4096), ".", _CharacterRun(_URL, 8, 4096)),
        guarded=True,
    ),
    *(
        _KeyShape("private-key", (f"-----BEGIN {kind}PRIVATE KEY-----", _CharacterRun(r"A-Za-z0-9+/=\s\\", 0, 16384)))
        for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")
    ),
)


class Redactor:
    """Replaces secrets in text by marks.

    Args:
        values: (variable name, value) pairs. Values shorter than 8 characters are ignored. Each value is found as it
            is and in its hexadecimal, base32, base64, percent-encoded and JSON-escaped forms, base32 and base64 also
            inside a longer encoded text.
    """

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        literals: dict[str, str] = {}
        names = {shape.name for shape in _SHAPES} | {name for name, _, _ in KEY_SHAPES} | {"credential"}
        for name, value in values:
            word = _sanitize_name(name)
            for form in _list_forms(value):
                literals.setdefault(form, f"{MARK_PREFIX}{word}]")
            names.add(word)
        for name in names:
            literals[f"{MARK_PREFIX}{name}]"] = f"{MARK_PREFIX}{name}]"
        self._marks = literals
        self._sorted = sorted(literals)
        self._longest_literal = max(map(len, literals))
        self._hint = re.compile("|".join(sorted({*map(_pick_rare_part, literals), *_SHAPE_HINTS})))
        self._secret = re.compile(_build_secret_pattern(literals))
        self._heads = re.compile(_build_heads_pattern(literals))
        self.longest = max(self._longest_literal, *(_measure_longest(shape) for shape in _SHAPES))
        """Length in characters of the longest possible secret."""

    def redact_text(self, text: str) -> str:
        """Replace every secret in *text* by a mark, including one that was already cut short by an ellipsis."""
        spans = self.find_secrets(text)
        pieces: list[str] = []
        at = 0
        for begin, end, mark in spans:
            pieces += (text[at:begin], mark)
            at = end
        clean = "".join([*pieces, text[at:]]) if pieces else text
        return self._redact_cut_secrets(clean) if ELLIPSIS in clean else clean

    def _redact_cut_secrets(self, text: str) -> str:
        """Replace the beginnings of secrets that end at an ellipsis."""
        *pieces, rest = text.split(ELLIPSIS)
        kept = []
        for piece in pieces:
            begun = self.find_open_start(piece) if len(piece) >= MIN_SECRET_CHARACTERS else len(piece)
            kept.append(f"{piece[:begun]}{CREDENTIAL_MARK}" if len(piece) - begun >= MIN_SECRET_CHARACTERS else piece)
        return ELLIPSIS.join([*kept, rest])

    def redact_json(self, value: Any) -> Any:
        """Copy a JSON value with every string and every key redacted, at any depth.

        Keys that become equal get a number after the mark. Tuples become lists.
        """
        if type(value) in _TEXTLESS_TYPES:
            return value
        if not value and type(value) in _EMPTY_VALUES:
            return _EMPTY_VALUES[type(value)]()
        top: list[Any] = [value]
        # A stack instead of recursion: a model decides how deeply its arguments are nested.
        todo: list[tuple[Any, Any]] = [(top, 0)]
        while todo:
            place, key = todo.pop()
            item = place[key]
            if isinstance(item, str):
                place[key] = self.redact_text(item)
            elif isinstance(item, _MAPPING_TYPES):
                copy: dict[Any, Any] = {}
                for name, inner in item.items():
                    copy[self._redact_key(name, copy)] = inner
                place[key] = copy
                todo += [(copy, name) for name, inner in copy.items() if type(inner) not in _TEXTLESS_TYPES]
            elif isinstance(item, list | tuple):
                place[key] = row = list(item)
                todo += [(row, number) for number, inner in enumerate(row) if type(inner) not in _TEXTLESS_TYPES]
        return top[0]

    def find_secrets(self, text: str, start: int = 0) -> list[tuple[int, int, str]]:
        """Find the secrets (and marks) in *text* from *start* on: (start, end, mark) in order, without overlaps."""
        spans = (
            [(found.start(), found.end(), self._choose_mark(found)) for found in self._secret.finditer(text, start)]
            if self._hint.search(text, start)
            else []
        )
        # A word may start in the escape before a key.
        keys = [key for key in match_key_shapes(text, max(0, start - CONTEXT_CHARACTERS)) if key.start >= start]
        return _add_keys(spans, keys, text) if keys else spans

    def find_open_start(self, text: str, start: int = 0) -> int:
        """Find the first offset, from *start* on, of a possible secret that more text could complete or lengthen.

        Returns `len(text)` if there is none.
        """
        end = len(text)
        near = max(start, end - self.longest)
        if not _compile_shape_hints().search(text, near):
            near = max(start, end - _MAX_PREFIX_CHARACTERS)  # no key has begun, but its prefix may have
        shape = _compile_open_shapes().search(text, near)
        first = min(shape.start() if shape else end, find_open_key(text, start))
        head = self._heads.search(text, max(start, end - self._longest_literal), end)
        while head and head.start() < first:
            if self._begins_longer_literal(text[head.start() :]):
                return head.start()
            head = self._heads.search(text, head.start() + 1, end)
        return first

    def _begins_longer_literal(self, part: str) -> bool:
        at = bisect_left(self._sorted, part)
        if at < len(self._sorted) and self._sorted[at] == part:
            at += 1
        return at < len(self._sorted) and self._sorted[at].startswith(part)

    def _choose_mark(self, found: re.Match[str]) -> str:
        secret = found.group()
        if secret in self._marks:
            return self._marks[secret]
        name = next(s.name for s in _SHAPES if isinstance(s.parts[0], str) and secret.startswith(s.parts[0]))
        return f"{MARK_PREFIX}{name}]"

    def _redact_key(self, name: Any, taken: Mapping[Any, Any]) -> Any:
        if not isinstance(name, str):
            return name
        clean = self.redact_text(name)
        if clean not in taken:
            return clean
        number = len(taken) + 1
        while f"{clean}#{number}" in taken:
            number += 1
        return f"{clean}#{number}"


def _add_keys(spans: list[tuple[int, int, str]], keys: list[SecretMatch], text: str) -> list[tuple[int, int, str]]:
    """Add to the spans the keys that overlap none of them.

    A key right after `]` is left out: it may follow a mark, before whose insertion it was no key.
    """
    merged = list(spans)
    for key in keys:
        if text[key.start - 1 : key.start] != "]" and all(
            key.end <= begin or key.start >= end for begin, end, _ in merged
        ):
            merged.append((key.start, key.end, f"{MARK_PREFIX}{key.shape}]"))
    return sorted(merged)


def find_credentials(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Find the environment variables that hold credentials: (name, value) pairs, sorted by name.

    A variable counts if its name says so and its value may be a secret (not short, digits, a path or another
    variable's name). The password part of any URL counts too.
    """
    found: list[tuple[str, str]] = []
    for name, value in sorted(environment.items()):
        if (
            _CREDENTIAL_NAME.search(name.upper())
            and len(value) >= MIN_SECRET_CHARACTERS
            and not _HARMLESS_VALUE.fullmatch(value)
            and value not in environment
        ):
            found.append((name, value))
        if "://" in value and "@" in value and (password := _extract_password(value)):
            found += [(name, form) for form in sorted({password, unquote(password)})]
    return found


_TEXTLESS_TYPES = frozenset({int, float, bool, type(None)})
"""Types without text, which need no redaction; most stored values have one of them."""
_EMPTY_VALUES: dict[type, type] = {str: str, dict: dict, tuple: list, list: list}
_MAPPING_TYPES = (dict, Mapping)
"""dict comes first: checking against an abstract class takes ten times as long."""
# AUTHOR is no credential, AUTHORIZATION is; a KEYBOARD is not a KEY.
_CREDENTIAL_NAME = re.compile(
    r"KEYS?(?![A-Z])|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH(?!OR(?!I))|COOKIE|BEARER"
)
# Digits; or an absolute or relative path of at least two parts, none of which is long enough to be a key.
_HARMLESS_VALUE = re.compile(r"[\d.,:]+|(?:~|\.{1,2})?(?:/[\w.@ -]{1,24}){2,}/?")


def _extract_password(url: str) -> str | None:
    try:
        password = urlsplit(url).password
    except ValueError:
        return None
    return password if password and len(password) >= MIN_SECRET_CHARACTERS else None


def _sanitize_name(name: str) -> str:
    """Replace characters in a name that could open or close a mark."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "_"


# --- the forms of a value ---------------------------------------------------------------------------------------


def _list_forms(value: str) -> set[str]:
    if len(value) < MIN_SECRET_CHARACTERS:
        return set()
    return {
        whole
        for text in (value, value.strip())
        for form in list_encoded_forms(text)
        for whole in _split_at_marks(form)
        if len(whole) >= HEAD_CHARACTERS
    }


def _split_at_marks(form: str) -> list[str]:
    """Split a value at marks, and drop the beginning of a mark at its end.

    Otherwise the value could match again across a mark that redaction has inserted.
    """
    parts = form.split(MARK_PREFIX)
    for length in range(len(MARK_PREFIX) - 1, 0, -1):
        if parts[-1].endswith(MARK_PREFIX[:length]):
            parts[-1] = parts[-1][:-length]
            break
    return parts


# --- regular expressions ----------------------------------------------------------------------------------------


def _build_guard(first: str) -> str:
    """Build the lookbehinds of a guarded shape; they follow its first character, so that it still starts literally.

    `]` ends a mark: a key right after it would have matched before the mark was inserted, or not at all.
    """
    char = re.escape(first)
    return rf"(?:(?<![A-Za-z0-9_\]-]{char})|(?<=\\[bfnrt]{char})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{char}))"


def _build_shape_pattern(shape: _KeyShape) -> str:
    """Build the regular expression of a shape, without its first character."""
    head, *rest = shape.parts
    assert isinstance(head, str)
    text = (_build_guard(head[0]) if shape.guarded else "") + re.escape(head[1:])
    for part in rest:
        text += re.escape(part) if isinstance(part, str) else f"[{part.chars}]{{{part.least},{part.most}}}"
    return text + (r"(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?" if shape.name == "private-key" else "")


def _build_open_shape_pattern(shape: _KeyShape) -> str:
    """Build the expression for any beginning of the shape that reaches the end of the text, the whole included."""
    text = r"\Z"
    parts = shape.parts
    if shape.name == "private-key":
        parts += ("-----END ", _CharacterRun("A-Z ", 0, 20), "PRIVATE KEY-----")
    for part in reversed(parts):
        if isinstance(part, str):
            # a whole key that ends before the end of the text is not an open one
            for char in reversed(part):
                text = f"{re.escape(char)}(?:{text}|\\Z)"
        else:
            run = f"[{part.chars}]"
            text = f"(?:{run}{{{part.least},{part.most}}}(?:{text})|{run}{{0,{part.most}}}\\Z)"
    if shape.guarded:
        head = shape.parts[0][0] if isinstance(shape.parts[0], str) else ""
        text = head + _build_guard(head) + text.removeprefix(re.escape(head))
    return text


def _measure_longest(shape: _KeyShape) -> int:
    end = len("-----END PRIVATE KEY-----") + 20 if shape.name == "private-key" else 0
    return end + sum(len(part) if isinstance(part, str) else part.most for part in shape.parts)


def _build_secret_pattern(literals: Iterable[str]) -> str:
    """Build the expression for all literals and shapes, grouped by their first character."""
    groups: dict[str, list[str]] = {}
    by_first: dict[str, list[str]] = {}
    for literal in literals:
        by_first.setdefault(literal[0], []).append(literal[1:])
    for first, rests in by_first.items():
        groups[first] = [_build_trie_pattern(rests)]
    for shape in _SHAPES:
        groups.setdefault(str(shape.parts[0])[0], []).append(_build_shape_pattern(shape))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in sorted(groups.items()))


def _build_trie_pattern(rests: list[str]) -> str:
    """Build a trie-shaped expression that matches the longest of the strings."""
    ends = "" in rests
    by_first: dict[str, list[str]] = {}
    for rest in rests:
        if rest:
            by_first.setdefault(rest[0], []).append(rest)
    branches = []
    for group in by_first.values():
        shared = _find_shared_prefix(group)
        branches.append(re.escape(shared) + _build_trie_pattern([rest[len(shared) :] for rest in group]))
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)})" + ("?" if ends else "")


def _find_shared_prefix(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:length]


def _build_heads_pattern(literals: Iterable[str]) -> str:
    """Build the expression for the first characters of any literal, or fewer at the end of the text."""
    begun: set[str] = set()
    for literal in literals:
        head = literal[:HEAD_CHARACTERS]
        begun.add(re.escape(head))
        begun |= {re.escape(head[:length]) + r"\Z" for length in range(1, len(head))}
    return "|".join(sorted(begun))


def _pick_rare_part(literal: str) -> str:
    """Pick four characters of the literal, beginning with the one that is rarest in ordinary text."""
    starts = range(max(1, len(literal) - HEAD_CHARACTERS + 1))
    at = max(
        starts,
        key=lambda i: (
            _COMMON_CHARACTERS.find(literal[i]) if literal[i] in _COMMON_CHARACTERS else len(_COMMON_CHARACTERS)
        ),
    )
    return re.escape(literal[at : at + HEAD_CHARACTERS])


_COMMON_CHARACTERS = " etaoinsrhldcumpfgyw,.\"\n:bv_k-/0123456789()'{}[]=xjqzESTACINRPOLDMFUBGHKVWYXJQZ"
"""The characters of prose, code and JSON, the most frequent first, roughly."""

_SHAPE_HINTS = (
    r"k(?<=sk)-",
    "gh[pousr]_",
    "github_pat_",
    "glpat-",
    "AKIA",
    "AIza",
    "xox[bpars]-",
    r"J(?<=eyJ)",
    "BEGIN ",
)
"""A pattern that every text with a shape matches, starting at its rarest character."""

_MAX_PREFIX_CHARACTERS = max(len(part) for shape in _SHAPES for part in shape.parts[:1] if isinstance(part, str))


# Compiled when first needed: importing this module is part of every start.
@cache
def _compile_shape_hints() -> re.Pattern[str]:
    return re.compile("|".join(_SHAPE_HINTS))


@cache
def _compile_open_shapes() -> re.Pattern[str]:
    return re.compile("|".join(sorted({_build_open_shape_pattern(shape) for shape in _SHAPES})))
