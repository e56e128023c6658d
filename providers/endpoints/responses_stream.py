"""OpenAI Responses API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

An answer is a list of output items. Reasoning items and items of the endpoint's own tools must go back unchanged with
the next request: the items of such an answer are its `continuation`, in which placeholders mark the tool calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from providers.base import Answer, Finish
from providers.endpoints.dialects.output_items import CALL_KINDS, OutputItem, OutputItems, list_parts, read_string
from providers.endpoints.dialects.surrogates import join_surrogates
from providers.endpoints.reader import EmitDelta, EventReader, ignore_delta
from providers.endpoints.usage import read_responses_usage
from providers.usage import Usage
from store.events import Json

_PART_KINDS: Mapping[str, str] = {"output_text": "text", "text": "text", "refusal": "refusal"}
_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponseStream(EventReader):
    """Reads the body of one answer in pieces of any size: a stream of items, or one document."""

    def __init__(self, emit: EmitDelta = ignore_delta, *, secrets: Iterable[str] = ()) -> None:
        super().__init__(emit, secrets=secrets)
        self._items = OutputItems()
        self._refusal: list[str] = []
        self._usage: Mapping[str, Json] | None = None
        self._status = ""

    def _read_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        return read_responses_usage(self._usage)

    def _has_output(self) -> bool:
        return any(self._refusal) or any(item.kind in CALL_KINDS for item in self._items.list_in_order())

    # --- events -------------------------------------------------------------------------------------------------

    def _take_document(self, document: dict[str, Any]) -> None:
        if document.get("error"):
            self._note_error(document)
        elif not isinstance(document.get("output"), list):
            self._note_unreadable("the document contains no output")
        self._take_end(document)

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        kind = read_string(chunk, "type")
        if isinstance(usage := chunk.get("usage"), dict) and usage:
            self._usage = usage
        match kind:
            case "response.output_text.delta" | "response.output_text.done":
                self._take_text(chunk, "text", kind)
            case "response.refusal.delta" | "response.refusal.done":
                self._take_text(chunk, "refusal", kind)
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                self._take_text(chunk, "reasoning", kind)
            case "response.content_part.done":
                self._take_part(self._items.find_for_event(chunk), _read_part_number(chunk) or 0, chunk.get("part"))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                if isinstance(piece := chunk.get("delta"), str) and piece:
                    self._items.find_for_event(chunk).arguments.append(piece)
                    self.signs += 1
            case "response.function_call_arguments.done" | "response.custom_tool_call_input.done":
                self._items.find_for_event(chunk).replace_arguments(chunk.get("arguments", chunk.get("input")))
            case "response.output_item.added" | "response.output_item.done":
                self._take_item(chunk, chunk.get("item"), whole=kind.endswith("done"))
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

    def _take_text(self, chunk: dict[str, Any], kind: str, event: str) -> None:
        """Read a piece of a text, or the complete text if no piece of it has arrived."""
        item, part = self._items.find_for_event(chunk), _read_part_number(chunk)
        if event.endswith(".delta"):
            self._add_text(item, kind, part, chunk.get("delta"))
        elif not item.has_emitted(kind, part or 0):
            self._add_text(item, kind, part, chunk.get("text", chunk.get("refusal")))

    def _add_text(self, item: OutputItem, kind: str, part: int | None, piece: Any) -> None:
        if not isinstance(piece, str) or not piece:
            return
        item.streamed.add((kind, part))
        if kind == "text":
            self._emit_text(piece)
        elif kind == "reasoning":
            self._emit_reasoning(piece)
        else:
            self._refusal.append(piece)
            self.signs += 1

    def _take_part(self, item: OutputItem, number: int, part: Any) -> None:
        """Read a complete part of a message unless its text has been emitted."""
        if not isinstance(part, dict):
            return
        kind = _PART_KINDS.get(read_string(part, "type"))
        if kind is not None and not item.has_emitted(kind, number):
            self._add_text(item, kind, number, part.get("text" if kind == "text" else "refusal"))

    def _take_item(self, chunk: dict[str, Any], content: Any, *, whole: bool) -> None:
        """Read the start of an item, or the complete item, which replaces its pieces."""
        if not isinstance(content, dict):
            return
        item = self._items.find_for_item(chunk, content, begins=not whole)
        item.content = content
        item.take_arguments(content, whole=whole)
        self.signs += 1
        if whole:
            self._take_texts(item, content)
            item.complete = True

    def _take_texts(self, item: OutputItem, content: dict[str, Any]) -> None:
        """Emit the texts of a complete item that no piece has had."""
        for number, part in enumerate(list_parts(content, "content") if item.kind == "message" else ()):
            self._take_part(item, number, part)
        if item.kind == "reasoning" and not any(kind == "reasoning" for kind, _ in item.streamed):
            for part in (*list_parts(content, "summary"), *list_parts(content, "content")):
                self._add_text(item, "reasoning", None, part.get("text"))

    def _take_end(self, response: Any, kind: str = "") -> None:
        """Read the end: status, usage, and from the final snapshot everything that stayed empty so far."""
        if not isinstance(response, dict):
            response = {}
        self._note_model(response.get("model"))
        self._status = read_string(response, "status") or kind
        self.finish_raw = self._status or None
        if isinstance(usage := response.get("usage"), dict) and usage:
            self._usage = usage
        if isinstance(details := response.get("incomplete_details"), dict) and self._status == "incomplete":
            self.finish_raw = read_string(details, "reason") or self._status
        for position, content in enumerate(list_parts(response, "output")):
            item = self._items.find_for_snapshot(position, content)
            item.merge_content(content)
            if not item.arguments:
                item.take_arguments(content, whole=True)
            self._take_texts(item, content)
        if self._status in {"failed", "cancelled"} and self._error is None:
            told = response.get("error")
            self._note_error(told if isinstance(told, dict) else {"message": f"the response was {self._status}"})
            if self._error is not None and not isinstance(told, dict):
                self._error.broken_off = True

    # --- the end ------------------------------------------------------------------------------------------------

    def _build_answer(self) -> Answer:
        raw = self.finish_raw
        finish: Finish | None = None
        notes: tuple[str, ...] = ()
        if self._status == "completed":
            finish = "stop"
        elif self._status == "incomplete":
            finish, notes = self._translate_finish(raw if raw != self._status else "length")
            finish = "length" if notes else finish
        elif self._status:
            raise self._build_error(
                "truncated", f"the endpoint stopped with the status {self._status[:100]!r}", retryable=True
            )
        items = self._items.list_in_order()
        drafts = [item for item in items if item.kind in CALL_KINDS]
        calls = tuple(item.build_call(number) for number, item in enumerate(drafts, start=1))
        refusal = join_surrogates("".join(self._refusal))
        if calls and finish in {"stop", None}:
            finish = "tool_calls"
        elif refusal and finish in {"stop", None}:
            finish = "refusal"
        usage, usage_notes = self.last_usage()
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
            notes=(*usage_notes, *notes),
        )


def _build_continuation(items: Iterable[OutputItem]) -> Json:
    """The items that must go back; None if text and calls are enough."""
    kept: list[Json] = []
    needed = False
    for item in items:
        if item.kind in CALL_KINDS:
            place = item.build_placeholder()
            kept.append(place)
            needed = needed or len(place) > 1
        elif item.kind == "reasoning" and not _can_go_back(item.content):
            # Reasoning that is not encrypted refers to a stored item, and the endpoint stores nothing.
            continue
        elif item.kind:
            kept.append(item.content)
            needed = needed or item.kind != "message" or bool(item.content.get("phase"))
    return {"items": kept} if needed else None


def _can_go_back(reasoning: Mapping[str, Any]) -> bool:
    return bool(reasoning.get("encrypted_content") or list_parts(reasoning, "content"))


def _read_part_number(chunk: Mapping[str, Any]) -> int | None:
    number = chunk.get("content_index")
    return number if isinstance(number, int) and not isinstance(number, bool) else None
