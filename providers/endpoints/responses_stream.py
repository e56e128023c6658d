"""OpenAI Responses API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

An answer is a list of output items. Reasoning items and items of the endpoint's own tools must go back unchanged with
the next request: the items of such an answer are its `continuation`, in which placeholders mark the tool calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from providers.base import Answer, Finish
from providers.endpoints.arguments import build_tool_call, encode_arguments
from providers.endpoints.reader import EmitDelta, EventReader, ignore_delta
from providers.endpoints.usage import read_responses_usage
from providers.usage import Usage
from store.events import Json

CALL_PLACEHOLDER = "call"
"""The type of the placeholder for a tool call in a continuation."""

_FINISH_BY_REASON: Mapping[str, Finish] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


@attrs.define(eq=False)
class _OutputItem:
    """An output item that is still arriving."""

    content: dict[str, Any] = attrs.field(factory=dict[str, Any])
    arguments: list[str] = attrs.field(factory=list[str])
    streamed: set[str] = attrs.field(factory=set[str])
    """The texts that arrived in deltas; the complete item only repeats them."""

    @property
    def kind(self) -> str:
        return _read_string(self.content, "type")


class ResponseStream(EventReader):
    """Reads the body of one answer in pieces of any size: a stream of items, or one document."""

    def __init__(self, emit: EmitDelta = ignore_delta, *, secrets: Iterable[str] = ()) -> None:
        super().__init__(emit, secrets=secrets)
        self._items: dict[int, _OutputItem] = {}
        self._refusal: list[str] = []
        self._usage: Mapping[str, Json] | None = None
        self._status = ""

    def last_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last usage report and its notes."""
        return read_responses_usage(self._usage)

    # --- events -------------------------------------------------------------------------------------------------

    def _take_document(self, document: dict[str, Any]) -> None:
        if document.get("error"):
            self._note_error(document)
        elif not isinstance(document.get("output"), list):
            self._note_unreadable("the document contains no output")
        self._take_end(document)

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        kind = _read_string(chunk, "type")
        match kind:
            case "response.output_text.delta":
                self._find_item(chunk).streamed.add("text")
                self._emit_text(chunk.get("delta"))
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                self._find_item(chunk).streamed.add("reasoning")
                self._emit_reasoning(chunk.get("delta"))
            case "response.refusal.delta":
                self._find_item(chunk).streamed.add("refusal")
                self._add_refusal(chunk.get("delta"))
            case "response.function_call_arguments.delta":
                if isinstance(piece := chunk.get("delta"), str):
                    self._find_item(chunk).arguments.append(piece)
            case "response.function_call_arguments.done":
                if isinstance(whole := chunk.get("arguments"), str):
                    self._find_item(chunk).arguments = [whole]
            case "response.output_item.added" | "response.output_item.done":
                self._take_item(self._find_item(chunk), chunk.get("item"), done=kind.endswith("done"))
            case _:
                self._take_state(kind, chunk)

    def _take_state(self, kind: str, chunk: dict[str, Any]) -> None:
        """Read an event about the whole response: its state, its end, or an error."""
        if kind == "error":
            self._note_error(chunk)
        elif kind in _TERMINAL_EVENTS:
            self._take_end(chunk.get("response"), kind.removeprefix("response."))
            self.done = True
        elif isinstance(response := chunk.get("response"), dict):
            self._note_model(response.get("model"))
        elif chunk.get("error"):
            self._note_error(chunk)

    def _find_item(self, chunk: dict[str, Any]) -> _OutputItem:
        """Find the item of an event by its position, since gateways may change ids."""
        index = chunk.get("output_index")
        if not isinstance(index, int):
            begins = chunk.get("type") == "response.output_item.added"
            index = len(self._items) if begins else next(reversed(self._items), 0)
        return self._items.setdefault(index, _OutputItem())

    def _take_item(self, item: _OutputItem, content: Any, *, done: bool) -> None:
        """Read the start of an item, or the complete item, which replaces its pieces."""
        if not isinstance(content, dict):
            return
        item.content = content
        arguments = content.get("arguments")
        if isinstance(arguments, str) and (done or arguments):
            item.arguments = [arguments] if arguments or not item.arguments else item.arguments
        elif arguments is not None and not isinstance(arguments, str):
            item.arguments = [encode_arguments(arguments)]
        if done:
            self._emit_unstreamed(item, content)

    def _emit_unstreamed(self, item: _OutputItem, content: Mapping[str, Any]) -> None:
        """Emit the texts of a complete item that no event has streamed."""
        match item.kind:
            case "message":
                for part in _list_parts(content, "content"):
                    if _read_string(part, "type") in {"output_text", "text"} and "text" not in item.streamed:
                        self._emit_text(part.get("text"))
                    elif part.get("type") == "refusal" and "refusal" not in item.streamed:
                        self._add_refusal(part.get("refusal"))
            case "reasoning" if "reasoning" not in item.streamed:
                for part in (*_list_parts(content, "summary"), *_list_parts(content, "content")):
                    self._emit_reasoning(part.get("text"))
        item.streamed |= {"text", "refusal", "reasoning"}

    def _add_refusal(self, piece: Any) -> None:
        if isinstance(piece, str):
            self._refusal.append(piece)

    def _take_end(self, response: Any, kind: str = "") -> None:
        """Read the end: status, usage, and the items if no event had any."""
        if not isinstance(response, dict):
            response = {}
        self._note_model(response.get("model"))
        self._status = _read_string(response, "status") or kind
        self.finish_raw = self._status or None
        if isinstance(usage := response.get("usage"), dict) and usage:
            self._usage = usage
        if isinstance(details := response.get("incomplete_details"), dict) and self._status == "incomplete":
            self.finish_raw = _read_string(details, "reason") or self._status
        if not any(item.content for item in self._items.values()):
            for index, content in enumerate(_list_parts(response, "output")):
                self._take_item(self._items.setdefault(index, _OutputItem()), content, done=True)
        if self._status in {"failed", "cancelled"} and self._error is None:
            told = response.get("error")
            self._note_error(told if isinstance(told, dict) else {"message": f"the response was {self._status}"})

    # --- the end ------------------------------------------------------------------------------------------------

    def _build_answer(self) -> Answer:
        raw = self.finish_raw
        finish: Finish | None = None
        if self._status == "completed":
            finish = "stop"
        elif self._status == "incomplete":
            finish = _FINISH_BY_REASON.get(raw or "", "length")
        elif self._status:
            raise self._build_error(
                "truncated", f"the endpoint stopped with the status {self._status!r}", retryable=True
            )
        items = [self._items[index] for index in sorted(self._items)]
        calls = tuple(
            build_tool_call(
                _read_string(item.content, "call_id") or _read_string(item.content, "id") or f"call_{number}",
                _read_string(item.content, "name"),
                "".join(item.arguments),
            )
            for number, item in enumerate((item for item in items if item.kind == "function_call"), start=1)
        )
        refusal = "".join(self._refusal)
        if calls and finish in {"stop", None}:
            finish = "tool_calls"
        elif refusal and finish in {"stop", None}:
            finish = "refusal"
        usage, notes = self.last_usage()
        return Answer(
            text=self.text,
            reasoning=self.reasoning,
            refusal=refusal,
            calls=calls,
            usage=usage,
            finish=finish,
            finish_raw=raw,
            model=self.model,
            continuation=_build_continuation(items),
            notes=notes,
        )


def _build_continuation(items: Iterable[_OutputItem]) -> Json:
    """The items that must go back; None if text and calls are enough."""
    kept: list[Json] = []
    needed = False
    for item in items:
        if item.kind == "function_call":
            kept.append({"type": CALL_PLACEHOLDER})
        elif item.kind == "reasoning" and not _can_go_back(item.content):
            # Reasoning that is not encrypted refers to a stored item, and the endpoint stores nothing.
            continue
        elif item.kind:
            kept.append(item.content)
            needed = needed or item.kind != "message" or bool(item.content.get("phase"))
    return {"items": kept} if needed else None


def _can_go_back(reasoning: Mapping[str, Any]) -> bool:
    return bool(reasoning.get("encrypted_content") or _list_parts(reasoning, "content"))


def _list_parts(holder: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    parts = holder.get(field)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _read_string(holder: Mapping[str, Any], field: str) -> str:
    value = holder.get(field)
    return value if isinstance(value, str) else ""
