"""Redaction of secrets: exact credentials of the environment, and strings with the shape of a known key.

A mark, `[redacted:NAME]`, replaces each secret; NAME is the variable's name or the shape's. A mark of this redactor
passes through unchanged, so that redaction is idempotent.

One regular expression matches everything. Every alternative starts with a literal character, which lets the engine skip
from candidate to candidate; every repetition is bounded, and no two neighbouring repetitions share a character, so
that the time is linear in the length of even hostile text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

import attrs

SHORTEST = 8
"""Smallest length of a secret value; shorter ones would occur everywhere by chance."""

CONTEXT = 3
"""Number of preceding characters that decide whether a key may start at a position."""

MARK = "[redacted:"
CREDENTIAL = f"{MARK}credential]"
"""The mark for a cut secret, whose variable is unknown."""
CUT = "…"
"""The ellipsis that marks a cut in a shortened text."""
HEAD = 4
"""Number of leading characters of a literal that are compared before the whole."""


@attrs.frozen
class _Run:
    """A run of `least` to `most` characters of a class."""

    chars: str
    least: int
    most: int


@attrs.frozen
class _Shape:
    r"""The shape of a key with a recognisable format: literals and runs, in order.

    A `guarded` shape starts only at the start of a word, at an escape (`\n`) or after a percent code: its prefix is too
    common inside words, or its runs could be made to overlap.
    """

    name: str
    parts: tuple[str | _Run, ...]
    guarded: bool = False


_WORD = "A-Za-z0-9"
_URL = "A-Za-z0-9_-"
_SHAPES = (
    *(
        _Shape("sk-key", (f"sk-{who}-", _Run(_URL, 20, 512)), guarded=True)
        for who in ("ant", "proj", "or", "svcacct", "admin")
    ),
    _Shape("sk-key", ("sk-", _Run(_WORD, 20, 512)), guarded=True),
    *(_Shape("github-token", (f"gh{kind}_", _Run(_WORD, 30, 255))) for kind in "pousr"),
    _Shape("github-token", ("github_pat_", _Run("A-Za-z0-9_", 22, 255))),
    _Shape("gitlab-token", ("glpat-", _Run(_URL, 20, 255))),
    _Shape("aws-key", ("AKIA", _Run("A-Z0-9", 16, 16))),
    *(_Shape("slack-token", (f"xox{kind}-", _Run("A-Za-z0-9-", 10, 255))) for kind in "bpars"),
    _Shape("google-key", ("AIza", _Run(_URL, 35, 35))),
    _Shape("jwt", ("eyJ", _Run(_URL, 8, 4096), ".eyJ", _Run(_URL, 8, 4096), ".", _Run(_URL, 8, 4096)), guarded=True),
    *(
        _Shape("private-key", (f"-----BEGIN {kind}PRIVATE KEY-----", _Run(r"A-Za-z0-9+/=\s\\", 0, 16384)))
        for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")
    ),
)


class Redactor:
    """Replaces secrets in text by marks.

    Args:
        values: (variable name, value) pairs. Values shorter than 8 characters are ignored. Each value is found as it
            is and in its base64, percent-encoded and JSON-escaped forms, base64 also inside a longer encoded text.
    """

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        literals: dict[str, str] = {}
        names = {shape.name for shape in _SHAPES} | {"credential"}
        for name, value in values:
            word = _plain(name)
            for form in _forms(value):
                literals.setdefault(form, f"{MARK}{word}]")
            names.add(word)
        for name in names:
            literals[f"{MARK}{name}]"] = f"{MARK}{name}]"
        self._marks = literals
        self._sorted = sorted(literals)
        self._longest_literal = max(map(len, literals))
        self._hint = re.compile("|".join(sorted({*map(_rare, literals), *_SHAPE_HINTS})))
        self._secret = re.compile(_alternatives(literals))
        self._heads = re.compile(_heads(literals))
        self.longest = max(self._longest_literal, *(_length(shape) for shape in _SHAPES))
        """Length in characters of the longest possible secret."""

    def text(self, text: str) -> str:
        """Replace every secret in *text* by a mark, including one that was already cut short by an ellipsis."""
        clean = self._secret.sub(self._mark, text) if self._hint.search(text) else text
        return self._without_stumps(clean) if CUT in clean else clean

    def _without_stumps(self, text: str) -> str:
        """Replace the beginnings of secrets that end at an ellipsis."""
        *pieces, rest = text.split(CUT)
        kept = []
        for piece in pieces:
            begun = self.open_from(piece) if len(piece) >= SHORTEST else len(piece)
            kept.append(f"{piece[:begun]}{CREDENTIAL}" if len(piece) - begun >= SHORTEST else piece)
        return CUT.join([*kept, rest])

    def json(self, value: Any) -> Any:
        """Copy a JSON value with every string and every key redacted, at any depth.

        Keys that become equal get a number after the mark. Tuples become lists.
        """
        if type(value) in _PLAIN:
            return value
        if not value and type(value) in _EMPTY:
            return _EMPTY[type(value)]()
        top: list[Any] = [value]
        # A stack instead of recursion: a model decides how deeply its arguments are nested.
        todo: list[tuple[Any, Any]] = [(top, 0)]
        while todo:
            place, key = todo.pop()
            item = place[key]
            if isinstance(item, str):
                place[key] = self.text(item)
            elif isinstance(item, _MAPPING):
                copy: dict[Any, Any] = {}
                for name, inner in item.items():
                    copy[self._key(name, copy)] = inner
                place[key] = copy
                todo += [(copy, name) for name, inner in copy.items() if type(inner) not in _PLAIN]
            elif isinstance(item, list | tuple):
                place[key] = row = list(item)
                todo += [(row, number) for number, inner in enumerate(row) if type(inner) not in _PLAIN]
        return top[0]

    def scan(self, text: str, start: int = 0) -> Iterator[tuple[int, int, str]]:
        """Find the secrets (and marks) in *text* from *start* on; yields (start, end, mark) in order."""
        if not self._hint.search(text, start):
            return
        for found in self._secret.finditer(text, start):
            yield found.start(), found.end(), self._mark(found)

    def open_from(self, text: str, start: int = 0) -> int:
        """Find the first offset, from *start* on, of a possible secret that more text could complete or lengthen.

        Returns `len(text)` if there is none.
        """
        end = len(text)
        near = max(start, end - self.longest)
        if not _shape_hint().search(text, near):
            near = max(start, end - _LONGEST_PREFIX)  # no key has begun, but its prefix may have
        shape = _open_shape().search(text, near)
        first = shape.start() if shape else end
        head = self._heads.search(text, max(start, end - self._longest_literal), end)
        while head and head.start() < first:
            if self._begins_longer(text[head.start() :]):
                return head.start()
            head = self._heads.search(text, head.start() + 1, end)
        return first

    def _begins_longer(self, part: str) -> bool:
        at = bisect_left(self._sorted, part)
        if at < len(self._sorted) and self._sorted[at] == part:
            at += 1
        return at < len(self._sorted) and self._sorted[at].startswith(part)

    def _mark(self, found: re.Match[str]) -> str:
        secret = found.group()
        if secret in self._marks:
            return self._marks[secret]
        name = next(s.name for s in _SHAPES if isinstance(s.parts[0], str) and secret.startswith(s.parts[0]))
        return f"{MARK}{name}]"

    def _key(self, name: Any, taken: Mapping[Any, Any]) -> Any:
        if not isinstance(name, str):
            return name
        clean = self.text(name)
        if clean not in taken:
            return clean
        number = len(taken) + 1
        while f"{clean}#{number}" in taken:
            number += 1
        return f"{clean}#{number}"


def credentials(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Find the environment variables that hold credentials: (name, value) pairs, sorted by name.

    A variable counts if its name says so and its value may be a secret (not short, digits, a path or another
    variable's name). The password part of any URL counts too.
    """
    found: list[tuple[str, str]] = []
    for name, value in sorted(environment.items()):
        if (
            _SAYS_CREDENTIAL.search(name.upper())
            and len(value) >= SHORTEST
            and not _NO_SECRET.fullmatch(value)
            and value not in environment
        ):
            found.append((name, value))
        if "://" in value and "@" in value and (password := _password(value)):
            found += [(name, form) for form in sorted({password, unquote(password)})]
    return found


_PLAIN = frozenset({int, float, bool, type(None)})
"""Types without text, which need no redaction; most stored values have one of them."""
_EMPTY: dict[type, type] = {str: str, dict: dict, tuple: list, list: list}
_MAPPING = (dict, Mapping)
"""dict comes first: checking against an abstract class takes ten times as long."""
# AUTHOR is no credential, AUTHORIZATION is; a KEYBOARD is not a KEY.
_SAYS_CREDENTIAL = re.compile(
    r"KEYS?(?![A-Z])|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH(?!OR(?!I))|COOKIE|BEARER"
)
# Digits; or an absolute or relative path of at least two parts, none of which is long enough to be a key.
_NO_SECRET = re.compile(r"[\d.,:]+|(?:~|\.{1,2})?(?:/[\w.@ -]{1,24}){2,}/?")


def _password(url: str) -> str | None:
    try:
        password = urlsplit(url).password
    except ValueError:
        return None
    return password if password and len(password) >= SHORTEST else None


def _plain(name: str) -> str:
    """Replace characters in a name that could open or close a mark."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "_"


# --- the forms of a value ---------------------------------------------------------------------------------------


def _forms(value: str) -> set[str]:
    if len(value) < SHORTEST:
        return set()
    forms: set[str] = set()
    for text in {value, value.strip()}:
        octets = text.encode("utf-8", "surrogatepass")
        percent = quote(octets, safe="")
        escaped = json.dumps(text)[1:-1]
        forms |= {
            text,
            percent,
            re.sub(r"%[0-9A-F]{2}", lambda code: code.group().lower(), percent),
            quote(octets),
            quote_plus(octets),
            escaped,
            escaped.replace("/", "\\/"),
            json.dumps(text, ensure_ascii=False)[1:-1],
        }
        for encoded in _base64(octets):
            forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return {whole for form in forms for whole in _apart_from_marks(form) if len(whole) >= HEAD}


def _base64(octets: bytes) -> Iterator[str]:
    """Encode as base64: with and without padding, and the digits that stay fixed inside longer encoded bytes."""
    whole = b64encode(octets).decode()
    yield whole
    yield whole.rstrip("=")
    for before, unsure in ((0, 0), (1, 2), (2, 3)):
        encoded = b64encode(b"\0" * before + octets).decode().rstrip("=")
        # a digit that the last byte does not fill depends on the following byte
        yield encoded[unsure : (before + len(octets)) * 8 // 6]


def _apart_from_marks(form: str) -> list[str]:
    """Split a value at marks, and drop the beginning of a mark at its end.

    Otherwise the value could match again across a mark that redaction has inserted.
    """
    parts = form.split(MARK)
    for length in range(len(MARK) - 1, 0, -1):
        if parts[-1].endswith(MARK[:length]):
            parts[-1] = parts[-1][:-length]
            break
    return parts


# --- regular expressions ----------------------------------------------------------------------------------------


def _guard(first: str) -> str:
    """Build the lookbehinds of a guarded shape; they follow its first character, so that it still starts literally.

    `]` ends a mark: a key right after it would have matched before the mark was inserted, or not at all.
    """
    char = re.escape(first)
    return rf"(?:(?<![A-Za-z0-9_\]-]{char})|(?<=\\[bfnrt]{char})|(?<=%[0-9A-Fa-f][0-9A-Fa-f]{char}))"


def _whole(shape: _Shape) -> str:
    """Build the regular expression of a shape, without its first character."""
    head, *rest = shape.parts
    assert isinstance(head, str)
    text = (_guard(head[0]) if shape.guarded else "") + re.escape(head[1:])
    for part in rest:
        text += re.escape(part) if isinstance(part, str) else f"[{part.chars}]{{{part.least},{part.most}}}"
    return text + (r"(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?" if shape.name == "private-key" else "")


def _begun(shape: _Shape) -> str:
    """Build the expression for any beginning of the shape that reaches the end of the text, the whole included."""
    text = r"\Z"
    parts = shape.parts
    if shape.name == "private-key":
        parts += ("-----END ", _Run("A-Z ", 0, 20), "PRIVATE KEY-----")
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
        text = head + _guard(head) + text.removeprefix(re.escape(head))
    return text


def _length(shape: _Shape) -> int:
    end = len("-----END PRIVATE KEY-----") + 20 if shape.name == "private-key" else 0
    return end + sum(len(part) if isinstance(part, str) else part.most for part in shape.parts)


def _alternatives(literals: Iterable[str]) -> str:
    """Build the expression for all literals and shapes, grouped by their first character."""
    groups: dict[str, list[str]] = {}
    by_first: dict[str, list[str]] = {}
    for literal in literals:
        by_first.setdefault(literal[0], []).append(literal[1:])
    for first, rests in by_first.items():
        groups[first] = [_tree(rests)]
    for shape in _SHAPES:
        groups.setdefault(str(shape.parts[0])[0], []).append(_whole(shape))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in sorted(groups.items()))


def _tree(rests: list[str]) -> str:
    """Build a trie-shaped expression that matches the longest of the strings."""
    ends = "" in rests
    by_first: dict[str, list[str]] = {}
    for rest in rests:
        if rest:
            by_first.setdefault(rest[0], []).append(rest)
    branches = []
    for group in by_first.values():
        shared = _shared_prefix(group)
        branches.append(re.escape(shared) + _tree([rest[len(shared) :] for rest in group]))
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)})" + ("?" if ends else "")


def _shared_prefix(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:length]


def _heads(literals: Iterable[str]) -> str:
    """Build the expression for the first characters of any literal, or fewer at the end of the text."""
    begun: set[str] = set()
    for literal in literals:
        head = literal[:HEAD]
        begun.add(re.escape(head))
        begun |= {re.escape(head[:length]) + r"\Z" for length in range(1, len(head))}
    return "|".join(sorted(begun))


def _rare(literal: str) -> str:
    """Pick four characters of the literal, beginning with the one that is rarest in ordinary text."""
    starts = range(max(1, len(literal) - HEAD + 1))
    at = max(starts, key=lambda i: _COMMON.find(literal[i]) if literal[i] in _COMMON else len(_COMMON))
    return re.escape(literal[at : at + HEAD])


_COMMON = " etaoinsrhldcumpfgyw,.\"\n:bv_k-/0123456789()'{}[]=xjqzESTACINRPOLDMFUBGHKVWYXJQZ"
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

_LONGEST_PREFIX = max(len(part) for shape in _SHAPES for part in shape.parts[:1] if isinstance(part, str))


# Compiled when first needed: importing this module is part of every start.
@cache
def _shape_hint() -> re.Pattern[str]:
    return re.compile("|".join(_SHAPE_HINTS))


@cache
def _open_shape() -> re.Pattern[str]:
    return re.compile("|".join(sorted({_begun(shape) for shape in _SHAPES})))
