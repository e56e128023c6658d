"""OpenAI chat completions API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

Servers differ, and this reader accepts the union of their dialects: a stream of chunks or one document; reasoning under
two names; tool calls in fragments, complete, or without an index; usage in any chunk or in none; errors inside
responses with status 200.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import attrs

from providers.base import Answer, Finish, ToolCall
from providers.endpoints.arguments import build_tool_call, encode_arguments
from providers.endpoints.reader import EmitDelta, EventReader, ignore_delta
from providers.endpoints.usage import read_chat_usage, read_reported_cost
from providers.usage import Usage
from store.events import Json

REASONING_CONTENT = "reasoning_content"

_FINISH_BY_REASON: Mapping[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}


@attrs.define(eq=False)
class _CallDraft:
    """A tool call that is still arriving."""

    index: int | None
    id: str = ""
    name: str = ""
    fragments: list[str] = attrs.field(factory=list[str])


class ChatStream(EventReader):
    """Reads the body of one answer in pieces of any size: a stream of chunks, or one document."""

    done_marker: ClassVar[bool] = True

    def __init__(
        self,
        emit: EmitDelta = ignore_delta,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(emit, secrets=secrets)
        self._reasoning_field: str | None = None
        self._refusal: list[str] = []
        self._drafts: list[_CallDraft] = []
        # the newest draft per index, the first per id: an answer may contain any number of calls
        self._by_index: dict[int, _CallDraft] = {}
        self._by_id: dict[str, _CallDraft] = {}
        self._old_call: _CallDraft | None = None
        self._usage: Mapping[str, Json] | None = None
        self._llama_cached: Json = None

    def last_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last usage report and its notes."""
        return read_chat_usage(self._usage, cached_elsewhere=self._llama_cached)

    # --- chunks -------------------------------------------------------------------------------------------------

    def _take_document(self, document: dict[str, Any]) -> None:
        self._take_chunk(document, "message")
        if self._error is None and not isinstance(document.get("choices"), list):
            self._note_unreadable("the document contains no choices")

    def _take_chunk(self, chunk: dict[str, Any], part: str = "delta") -> None:
        self._note_model(chunk.get("model"))
        self._update_usage(chunk)
        if chunk.get("error") or chunk.get("object") == "error":
            self._note_error(chunk)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
                if isinstance(reason := choice.get("finish_reason"), str) and reason:
                    self.finish_raw = reason
                if isinstance(delta := choice.get(part) or choice.get("delta") or choice.get("message"), dict):
                    self._take_delta(delta)

    def _update_usage(self, chunk: dict[str, Any]) -> None:
        groq = chunk.get("x_groq")
        for usage in (groq.get("usage") if isinstance(groq, dict) else None, chunk.get("usage")):
            if isinstance(usage, dict) and usage:
                self._usage = usage
        if isinstance(timings := chunk.get("timings"), dict):
            self._llama_cached = timings.get("cache_n")

    def _take_delta(self, delta: dict[str, Any]) -> None:
        for name in (REASONING_CONTENT, "reasoning"):
            if isinstance(piece := delta.get(name), str) and piece:
                self._reasoning_field = self._reasoning_field or name
                self._emit_reasoning(piece)
                break  # some gateways send the same piece under both names
        content = delta.get("content")
        if isinstance(content, str):
            self._emit_text(content)
        elif isinstance(content, list):
            for item in content:
                self._take_part(item)
        if isinstance(refusal := delta.get("refusal"), str):
            self._refusal.append(refusal)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._take_call_piece(call)
        if isinstance(old := delta.get("function_call"), dict):
            self._old_call = self._old_call or _CallDraft(None)
            _extend_draft(self._old_call, {"function": old})

    def _take_part(self, item: Json) -> None:
        """Read one typed part of a content list."""
        if not isinstance(item, dict):
            return
        if item.get("type") == "thinking":
            thought = item.get("thinking")
            parts = thought if isinstance(thought, list) else [thought]
            for part in parts:
                piece = part.get("text") if isinstance(part, dict) else part
                if isinstance(piece, str):
                    self._emit_reasoning(piece)
        elif item.get("type") in ("text", "output_text", None) and isinstance(piece := item.get("text"), str):
            self._emit_text(piece)

    def _take_call_piece(self, piece: dict[str, Any]) -> None:
        index, given = piece.get("index"), piece.get("id")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        given = given if isinstance(given, str) else ""
        function = piece.get("function")
        named = isinstance(function, dict) and bool(function.get("name"))
        if index is not None:
            draft = self._by_index.get(index)
            # Some gateways number every parallel call 0; another id with a name is another call.
            if draft is not None and named and given and draft.id and given != draft.id:
                draft = None
        else:
            draft = self._drafts[-1] if self._drafts else None
            if draft is not None and given and given != draft.id:
                draft = self._by_id.get(given)
        if draft is None:
            draft = _CallDraft(index)
            self._drafts.append(draft)
            if index is not None:
                self._by_index[index] = draft
        _extend_draft(draft, piece)
        if draft.id:
            self._by_id.setdefault(draft.id, draft)

    # --- the end ------------------------------------------------------------------------------------------------

    def _build_answer(self) -> Answer:
        raw = self.finish_raw
        finish = _FINISH_BY_REASON.get(raw) if raw is not None else None
        if finish == "error":
            raise self._build_error("server_error", f"the endpoint ended the answer with {raw!r}", retryable=True)
        drafts = self._drafts or ([self._old_call] if self._old_call is not None else [])
        calls = tuple(_build_call(draft, number) for number, draft in enumerate(drafts, start=1))
        refusal = "".join(self._refusal)
        if calls and (raw is None or finish == "stop"):
            finish = "tool_calls"
        elif refusal and finish in {"stop", None}:
            finish = "refusal"
        usage, notes = self.last_usage()
        field = self._reasoning_field
        return Answer(
            text=self.text,
            reasoning=self.reasoning,
            refusal=refusal,
            calls=calls,
            usage=usage,
            finish=finish,
            finish_raw=raw,
            model=self.model,
            # Such endpoints require the reasoning of a turn with calls; the turn has its text, this names its field.
            continuation={"reasoning_field": field} if field == REASONING_CONTENT else None,
            cost_nusd=read_reported_cost(self._usage),
            notes=notes,
        )


def _extend_draft(draft: _CallDraft, piece: dict[str, Any]) -> None:
    function = piece.get("function")
    function = function if isinstance(function, dict) else {}
    given, name, arguments = piece.get("id"), function.get("name"), function.get("arguments")
    if not draft.id and isinstance(given, str):
        draft.id = given
    if not draft.name and isinstance(name, str):
        draft.name = name
    draft.fragments.append(encode_arguments(arguments))


def _build_call(draft: _CallDraft, number: int) -> ToolCall:
    return build_tool_call(draft.id or f"call_{number}", draft.name, "".join(draft.fragments))
