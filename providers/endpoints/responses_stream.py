"""OpenAI Responses API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

An answer is a list of output items. Reasoning items and items of the endpoint's own tools must go back unchanged with
the next request: the items of such an answer are its `continuation`, in which placeholders mark the tool calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from providers.base import Answer, Finish
from providers.endpoints.arguments import as_text, tool_call
from providers.endpoints.reader import EventReader, Hear, unheard
from providers.endpoints.usage import read_responses_usage
from providers.usage import Usage
from store.events import Json

CALL = "call"
"""The type of the placeholder for a tool call in a continuation."""

_INCOMPLETE: Mapping[str, Finish] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


@attrs.define(eq=False)
class _Item:
    """An output item that is still arriving."""

    content: dict[str, Any] = attrs.field(factory=dict[str, Any])
    arguments: list[str] = attrs.field(factory=list[str])
    told: set[str] = attrs.field(factory=set[str])
    """The texts that arrived in deltas; the complete item only repeats them."""

    @property
    def kind(self) -> str:
        return _word(self.content, "type")


class ResponseStream(EventReader):
    """Reads the body of one answer in pieces of any size: a stream of items, or one document."""

    def __init__(self, emit: Hear = unheard, *, secrets: Iterable[str] = ()) -> None:
        super().__init__(emit, secrets=secrets)
        self._items: dict[int, _Item] = {}
        self._refusal: list[str] = []
        self._usage: Mapping[str, Json] | None = None
        self._status = ""

    def usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last usage report and its notes."""
        return read_responses_usage(self._usage)

    # --- events -------------------------------------------------------------------------------------------------

    def _whole(self, document: dict[str, Any]) -> None:
        if document.get("error"):
            self._report(document)
        elif not isinstance(document.get("output"), list):
            self._bad("the document contains no output")
        self._terminal(document)

    def _chunk(self, chunk: dict[str, Any]) -> None:
        kind = _word(chunk, "type")
        match kind:
            case "response.output_text.delta":
                self._item(chunk).told.add("text")
                self._say(chunk.get("delta"))
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                self._item(chunk).told.add("reasoning")
                self._think(chunk.get("delta"))
            case "response.refusal.delta":
                self._item(chunk).told.add("refusal")
                self._refuse(chunk.get("delta"))
            case "response.function_call_arguments.delta":
                if isinstance(piece := chunk.get("delta"), str):
                    self._item(chunk).arguments.append(piece)
            case "response.function_call_arguments.done":
                if isinstance(whole := chunk.get("arguments"), str):
                    self._item(chunk).arguments = [whole]
            case "response.output_item.added" | "response.output_item.done":
                self._take(self._item(chunk), chunk.get("item"), done=kind.endswith("done"))
            case "error":
                self._report(chunk)
            case _ if kind in _TERMINAL:
                self._terminal(chunk.get("response"), kind.removeprefix("response."))
                self.done = True
            case _ if isinstance(response := chunk.get("response"), dict):
                self._named(response.get("model"))
            case _ if chunk.get("error"):
                self._report(chunk)

    def _item(self, chunk: dict[str, Any]) -> _Item:
        """Find the item of an event by its position, since gateways may change ids."""
        index = chunk.get("output_index")
        if not isinstance(index, int):
            begins = chunk.get("type") == "response.output_item.added"
            index = len(self._items) if begins else next(reversed(self._items), 0)
        return self._items.setdefault(index, _Item())

    def _take(self, item: _Item, content: Any, *, done: bool) -> None:
        """Read the start of an item, or the complete item, which replaces its pieces."""
        if not isinstance(content, dict):
            return
        item.content = content
        arguments = content.get("arguments")
        if isinstance(arguments, str) and (done or arguments):
            item.arguments = [arguments] if arguments or not item.arguments else item.arguments
        elif arguments is not None and not isinstance(arguments, str):
            item.arguments = [as_text(arguments)]
        if not done:
            return
        match item.kind:
            case "message":
                for part in _parts(content, "content"):
                    if _word(part, "type") in {"output_text", "text"} and "text" not in item.told:
                        self._say(part.get("text"))
                    elif part.get("type") == "refusal" and "refusal" not in item.told:
                        self._refuse(part.get("refusal"))
            case "reasoning" if "reasoning" not in item.told:
                for part in (*_parts(content, "summary"), *_parts(content, "content")):
                    self._think(part.get("text"))
        item.told |= {"text", "refusal", "reasoning"}

    def _refuse(self, piece: Any) -> None:
        if isinstance(piece, str):
            self._refusal.append(piece)

    def _terminal(self, response: Any, kind: str = "") -> None:
        """Read the end: status, usage, and the items if no event had any."""
        if not isinstance(response, dict):
            response = {}
        self._named(response.get("model"))
        self._status = _word(response, "status") or kind
        self.finish_raw = self._status or None
        if isinstance(usage := response.get("usage"), dict) and usage:
            self._usage = usage
        if isinstance(details := response.get("incomplete_details"), dict) and self._status == "incomplete":
            self.finish_raw = _word(details, "reason") or self._status
        if not any(item.content for item in self._items.values()):
            for index, content in enumerate(_parts(response, "output")):
                self._take(self._items.setdefault(index, _Item()), content, done=True)
        if self._status in {"failed", "cancelled"} and self._error is None:
            told = response.get("error")
            self._report(told if isinstance(told, dict) else {"message": f"the response was {self._status}"})

    # --- the end ------------------------------------------------------------------------------------------------

    def _complete(self) -> Answer:
        raw = self.finish_raw
        finish: Finish | None = None
        if self._status == "completed":
            finish = "stop"
        elif self._status == "incomplete":
            finish = _INCOMPLETE.get(raw or "", "length")
        elif self._status:
            raise self._failed("truncated", f"the endpoint stopped with the status {self._status!r}", retryable=True)
        items = [self._items[index] for index in sorted(self._items)]
        calls = tuple(
            tool_call(
                _word(item.content, "call_id") or _word(item.content, "id") or f"call_{number}",
                _word(item.content, "name"),
                "".join(item.arguments),
            )
            for number, item in enumerate((item for item in items if item.kind == "function_call"), start=1)
        )
        refusal = "".join(self._refusal)
        if calls and finish in {"stop", None}:
            finish = "tool_calls"
        elif refusal and finish in {"stop", None}:
            finish = "refusal"
        usage, notes = self.usage()
        return Answer(
            text=self.text,
            reasoning=self.reasoning,
            refusal=refusal,
            calls=calls,
            usage=usage,
            finish=finish,
            finish_raw=raw,
            model=self.model,
            continuation=_continuation(items),
            notes=notes,
        )


def _continuation(items: Iterable[_Item]) -> Json:
    """The items that must go back; None if text and calls are enough."""
    kept: list[Json] = []
    needed = False
    for item in items:
        if item.kind == "function_call":
            kept.append({"type": CALL})
        elif item.kind == "reasoning" and not _survives(item.content):
            # Reasoning that is not encrypted refers to a stored item, and the endpoint stores nothing.
            continue
        elif item.kind:
            kept.append(item.content)
            needed = needed or item.kind != "message" or bool(item.content.get("phase"))
    return {"items": kept} if needed else None


def _survives(reasoning: Mapping[str, Any]) -> bool:
    return bool(reasoning.get("encrypted_content") or _parts(reasoning, "content"))


def _parts(holder: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    parts = holder.get(field)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _word(holder: Mapping[str, Any], field: str) -> str:
    value = holder.get(field)
    return value if isinstance(value, str) else ""
