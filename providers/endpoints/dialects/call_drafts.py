"""Tool calls of chat completions that are still arriving: assigns each piece to its call.

Servers number calls wrongly more often than they name them wrongly, so ids, names and complete arguments tell calls
apart before the index does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

from providers.base import ToolCall
from providers.endpoints.arguments import build_raw_call, build_tool_call, encode_arguments
from providers.endpoints.dialects.extras import ExtraFields
from providers.endpoints.dialects.surrogates import join_surrogates
from store.events import Json

_KNOWN_CALL_FIELDS = frozenset({"index", "id", "type", "function", "custom"})
_KNOWN_FUNCTION_FIELDS = frozenset({"name", "arguments", "input"})
_STRUCTURE = re.compile(r'["\\{}\[\]]')


class _ObjectScanner:
    """Tells whether a JSON object is complete, reading each character of its text once."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.complete = False
        """True if the text so far is one object whose braces are all closed."""

    def scan(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = _STRUCTURE.search(text, at)
            if found is None:
                return
            at = found.end()
            self._take_character(found[0])

    def _take_character(self, character: str) -> None:
        if self._in_string:
            self._in_string = character != '"'
            self._escaped = character == "\\"
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            self.complete = self._depth == 0


@attrs.define(eq=False, kw_only=True)
class CallDraft:
    """A tool call that is still arriving."""

    index: int | None
    id: str = ""
    name: str = ""
    custom: bool = False
    """True for a call whose argument is raw text instead of JSON."""
    fragments: list[str] = attrs.field(factory=list[str])
    extras: ExtraFields = attrs.field(factory=lambda: ExtraFields(_KNOWN_CALL_FIELDS))
    function_extras: ExtraFields = attrs.field(factory=lambda: ExtraFields(_KNOWN_FUNCTION_FIELDS))
    _scanner: _ObjectScanner = attrs.field(factory=_ObjectScanner)
    _scanned: int = 0

    def has_whole_arguments(self) -> bool:
        """True if the arguments so far are a complete JSON object."""
        for fragment in self.fragments[self._scanned :]:
            self._scanner.scan(fragment)
        self._scanned = len(self.fragments)
        return self._scanner.complete

    def extend_draft(self, piece: dict[str, Any]) -> None:
        """Add a piece. The first id and the first name count."""
        custom = piece.get("custom")
        function = custom if isinstance(custom, dict) else piece.get("function")
        function = function if isinstance(function, dict) else {}
        self.custom = self.custom or isinstance(custom, dict)
        given, name = piece.get("id"), function.get("name")
        if not self.id and isinstance(given, str):
            self.id = given
        if not self.name and isinstance(name, str):
            self.name = name
        if fragment := encode_arguments(function.get("input" if self.custom else "arguments")):
            self.fragments.append(fragment)
        self.extras.add_fields(piece)
        self.function_extras.add_fields(function)

    def build_call(self, number: int) -> ToolCall:
        """Build the complete call; the *number*-th call without an id is `call_N`."""
        raw = join_surrogates("".join(self.fragments))
        build = build_raw_call if self.custom else build_tool_call
        return build(self.id or f"call_{number}", self.name, raw)

    def build_remainder(self) -> dict[str, Json]:
        """The fields that must go back with the call besides id, name and arguments."""
        kept: dict[str, Json] = dict(self.extras.fields)
        if self.function_extras.fields:
            kept["function"] = self.function_extras.fields
        if self.custom:
            kept["custom"] = {"name": self.name, "input": join_surrogates("".join(self.fragments))}
        return kept


class ChatCallDrafts:
    """The calls of one answer, in the order of their first pieces."""

    def __init__(self) -> None:
        self.drafts: list[CallDraft] = []
        # the newest draft per index, the first per id: an answer may contain any number of calls
        self._by_index: dict[int, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}

    def add_pieces(self, pieces: Sequence[Json]) -> int:
        """Add the pieces of one chunk; returns their number. Each piece with a name is a call of its own."""
        named: set[int] = set()
        taken = 0
        for piece in pieces:
            if isinstance(piece, dict):
                self._add_piece(piece, named)
                taken += 1
        return taken

    def _add_piece(self, piece: dict[str, Any], named: set[int]) -> None:
        index, given, name = _read_index(piece), _read_id(piece), _read_name(piece)
        draft = self._find_draft(index, given, name)
        if draft is not None and name and id(draft) in named:
            draft = None
        if draft is None:
            draft = CallDraft(index=index)
            self.drafts.append(draft)
        if index is not None:
            self._by_index[index] = draft
        if name:
            named.add(id(draft))
        draft.extend_draft(piece)
        if draft.id:
            self._by_id.setdefault(draft.id, draft)

    def _find_draft(self, index: int | None, given: str, name: str) -> CallDraft | None:
        """The call that a piece continues; None if it begins one."""
        if index is not None:
            draft = self._by_index.get(index)
            if not name and given and (draft is None or (draft.id and draft.id != given)):
                draft = self._by_id.get(given, draft)
        else:
            draft = self.drafts[-1] if self.drafts else None
            if draft is not None and given and given != draft.id:
                draft = self._by_id.get(given)
        if draft is None or not name or not draft.name:
            return draft
        if given and draft.id:
            return draft if given == draft.id else None
        return None if name != draft.name or draft.has_whole_arguments() else draft


def _read_index(piece: dict[str, Any]) -> int | None:
    index = piece.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _read_id(piece: dict[str, Any]) -> str:
    given = piece.get("id")
    return given if isinstance(given, str) else ""


def _read_name(piece: dict[str, Any]) -> str:
    for holder in (piece.get("function"), piece.get("custom")):
        if isinstance(holder, dict) and isinstance(name := holder.get("name"), str) and name:
            return name
    return ""
