"""Output items of a Responses answer that are still arriving: assigns each event to its item.

Gateways number items wrongly and rotate ids, so an item is found by its id where one is known, else by its position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from providers.base import ToolCall
from providers.endpoints.arguments import build_raw_call, build_tool_call, encode_arguments
from providers.endpoints.dialects.surrogates import join_surrogates
from store.events import Json

CALL_PLACEHOLDER = "call"
"""The type of the placeholder for a tool call in a continuation."""
CALL_KINDS = frozenset({"function_call", "custom_tool_call"})
"""Types of items that are tool calls of the model to the caller."""
_KNOWN_CALL_FIELDS = frozenset({"type", "id", "call_id", "name", "arguments", "input", "status"})


@attrs.define(eq=False, kw_only=True)
class OutputItem:
    """An output item that is still arriving."""

    index: int
    content: dict[str, Any] = attrs.field(factory=dict[str, Any])
    arguments: list[str] = attrs.field(factory=list[str])
    ids: set[str] = attrs.field(factory=set[str])
    streamed: set[tuple[str, int | None]] = attrs.field(factory=set[tuple[str, int | None]])
    """The (kind, part) of texts that have been emitted; the complete item only repeats them. Part None: any part."""
    complete: bool = False
    """True once the complete item has arrived."""

    @property
    def kind(self) -> str:
        """The item's type; empty until it is announced."""
        return read_string(self.content, "type")

    def is_same(self, content: Mapping[str, Any]) -> bool:
        """True if *content* has this item's ids. A call's own id may rotate or repeat, its `call_id` does not."""
        ours, theirs = read_string(self.content, "call_id"), read_string(content, "call_id")
        if ours and theirs:
            return ours == theirs
        return bool(self.ids & _list_ids(content))

    def has_emitted(self, kind: str, part: int) -> bool:
        """True if the text of a part has been emitted."""
        return (kind, part) in self.streamed or (kind, None) in self.streamed

    def merge_content(self, content: Mapping[str, Any]) -> None:
        """Take over the fields of a complete item that are empty here."""
        empty: tuple[Any, ...] = (None, "", [], {})
        kept = {name: value for name, value in self.content.items() if value not in empty}
        self.content = {**self.content, **content, **kept}
        if content.get("status") is not None:
            self.content["status"] = content["status"]

    def take_arguments(self, content: Mapping[str, Any], *, whole: bool) -> None:
        """Read the arguments in an item; a *whole* item's replace the pieces so far unless they are empty."""
        given = content.get("input" if self.kind == "custom_tool_call" else "arguments")
        if isinstance(given, str):
            if given and (whole or not self.arguments):
                self.arguments = [given]
        elif given is not None:
            self.arguments = [encode_arguments(given)]

    def replace_arguments(self, whole: Json) -> None:
        """Replace the pieces by the *whole* arguments, unless those are empty."""
        if isinstance(whole, str) and whole:
            self.arguments = [whole]

    def build_call(self, number: int) -> ToolCall:
        """Build the complete call; the *number*-th call without an id is `call_N`."""
        call_id = read_string(self.content, "call_id") or read_string(self.content, "id") or f"call_{number}"
        build = build_raw_call if self.kind == "custom_tool_call" else build_tool_call
        return build(call_id, read_string(self.content, "name"), join_surrogates("".join(self.arguments)))

    def build_placeholder(self) -> dict[str, Json]:
        """The placeholder for a call, with everything that must go back with it."""
        extra = {name: value for name, value in self.content.items() if name not in _KNOWN_CALL_FIELDS}
        extra = {name: value for name, value in extra.items() if value is not None}
        place: dict[str, Json] = {"type": CALL_PLACEHOLDER}
        if extra:
            place["extra"] = extra
        if self.kind == "custom_tool_call":
            place["input"] = join_surrogates("".join(self.arguments))
        return place


class OutputItems:
    """The items of one answer."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        # the items per position, the first per id: an answer may contain any number of items
        self._by_index: dict[int, list[OutputItem]] = {}
        self._by_id: dict[str, OutputItem] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def list_in_order(self) -> list[OutputItem]:
        """The items by position, those of one position in the order of their arrival."""
        return sorted(self._items, key=lambda item: item.index)

    def find_for_event(self, chunk: Mapping[str, Any]) -> OutputItem:
        """Find the item that a piece of content belongs to; it is begun if there is none."""
        index, given = _read_index(chunk), read_string(chunk, "item_id")
        here = self._by_index.get(index, []) if index is not None else self._items
        by_id = self._by_id.get(given)
        if by_id is not None and (index is None or len(here) > 1 or not here):
            return by_id
        return here[-1] if here else self._begin_item(index)

    def find_for_item(self, chunk: Mapping[str, Any], content: Mapping[str, Any], *, begins: bool) -> OutputItem:
        """Find the item that an announced or complete item belongs to; another one at a taken place is begun."""
        index, ids = _read_index(chunk), _list_ids(content)
        here = self._by_index.get(index, []) if index is not None else self._items
        item = next((item for item in reversed(here) if item.is_same(content)), None)
        if item is None and not begins:
            # The ids of the complete item may be others than those of its announcement.
            item = next((item for item in here if not item.complete), None)
            if item is not None and index is None and ids and item.ids:
                item = None
        elif item is None and here and index is not None and not here[-1].ids and not here[-1].complete:
            item = here[-1]  # begun by a piece that came first
        if item is None:
            item = self._begin_item(index)
        item.ids |= ids
        for given in ids:
            self._by_id.setdefault(given, item)
        return item

    def find_for_snapshot(self, position: int, content: Mapping[str, Any]) -> OutputItem:
        """Find the item that an item of the final snapshot repeats, by id, else by its position in the answer."""
        ids = _list_ids(content)
        items = self.list_in_order()
        by_id = next((self._by_id[given] for given in sorted(ids) if given in self._by_id), None)
        if by_id is not None and by_id.is_same(content):
            return by_id
        if (same := next((item for item in items if ids and item.is_same(content)), None)) is not None:
            return same
        if position < len(items) and items[position].kind in {read_string(content, "type"), ""}:
            return items[position]
        item = self._begin_item(max((item.index for item in items), default=-1) + 1)
        item.ids |= ids
        return item

    def _begin_item(self, index: int | None) -> OutputItem:
        if index is None:
            index = max(self._by_index, default=-1) + 1
        item = OutputItem(index=index)
        self._items.append(item)
        self._by_index.setdefault(index, []).append(item)
        return item


def read_string(holder: Mapping[str, Any], field: str) -> str:
    """The string in *field*; empty if there is none."""
    value = holder.get(field)
    return value if isinstance(value, str) else ""


def list_parts(holder: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """The objects in the list in *field*."""
    parts = holder.get(field)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _read_index(chunk: Mapping[str, Any]) -> int | None:
    index = chunk.get("output_index")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _list_ids(content: Mapping[str, Any]) -> set[str]:
    """The ids of an item."""
    call_id = read_string(content, "call_id")
    return {given for given in (read_string(content, "id"), call_id) if given}
