"""OpenAI chat completions API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

Servers differ, and this reader accepts the union of their dialects: a stream of chunks or one document; reasoning under
two names; tool calls in fragments, complete, or without an index; usage in any chunk or in none; errors inside
responses with status 200.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from providers.base import Answer
from providers.endpoints.dialects.call_drafts import CallDraft, ChatCallDrafts
from providers.endpoints.dialects.extras import ExtraFields
from providers.endpoints.dialects.finishes import find_meaning
from providers.endpoints.dialects.surrogates import join_surrogates
from providers.endpoints.reader import EmitDelta, EventReader, ignore_delta
from providers.endpoints.usage import read_chat_usage, read_reported_cost
from providers.usage import Usage
from store.events import Json

REASONING_CONTENT = "reasoning_content"

_KNOWN_DELTA_FIELDS = frozenset(
    {
        "role",
        "content",
        "reasoning",
        REASONING_CONTENT,
        "refusal",
        "tool_calls",
        "function_call",
        "usage",
        "annotations",
    }
)
"""Fields of a delta that this reader reads, or that only describe the text."""


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
        self._calls = ChatCallDrafts()
        self._old_call: CallDraft | None = None
        self._extras = ExtraFields(_KNOWN_DELTA_FIELDS)
        self._native_finish: str | None = None
        self._usage: Mapping[str, Json] | None = None
        self._llama_cached: Json = None

    def _read_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        return read_chat_usage(
            self._usage, cached_elsewhere=self._llama_cached, with_calls=bool(self._calls.drafts or self._old_call)
        )

    def _has_output(self) -> bool:
        return bool(self._calls.drafts or self._old_call or any(self._refusal))

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
                    self.signs += 1
                if isinstance(native := choice.get("native_finish_reason"), str) and native:
                    self._native_finish = native
                if isinstance(error := choice.get("error"), dict | str) and error:
                    self._note_error({"error": error})
                if isinstance(delta := choice.get(part) or choice.get("delta") or choice.get("message"), dict):
                    self._take_delta(delta)

    def _update_usage(self, chunk: dict[str, Any]) -> None:
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        holders = [chunk.get("x_groq"), first, chunk]
        if isinstance(first, dict):
            holders[1:1] = [first.get("delta"), first.get("message")]
        for holder in holders:
            if isinstance(holder, dict) and isinstance(usage := holder.get("usage"), dict) and usage:
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
            self.signs += bool(refusal)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            self.signs += self._calls.add_pieces(calls)
        if isinstance(old := delta.get("function_call"), dict):
            self._old_call = self._old_call or CallDraft(index=None)
            self._old_call.extend_draft({"function": old})
            self.signs += 1
        self.signs += self._extras.add_fields(delta)

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

    # --- the end ------------------------------------------------------------------------------------------------

    def _build_answer(self) -> Answer:
        raw = self.finish_raw
        finish, finish_notes = self._translate_finish(raw)
        if finish in {"stop", None} and find_meaning(self._native_finish) in {"broken", "bad_tool_call"}:
            self._translate_finish(self._native_finish)
        drafts = self._calls.drafts or ([self._old_call] if self._old_call is not None else [])
        calls = tuple(draft.build_call(number) for number, draft in enumerate(drafts, start=1))
        refusal = join_surrogates("".join(self._refusal))
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
            continuation=self._build_continuation(drafts),
            cost_nusd=read_reported_cost(self._usage),
            notes=(*notes, *finish_notes),
        )

    def _build_continuation(self, drafts: Sequence[CallDraft]) -> Json:
        """Everything that must go back with the turn besides text and calls; None if there is nothing.

        `reasoning_field` names the field of the reasoning, which endpoints require with a turn that has calls; the turn
        itself has the text. `message` and `calls` hold the fields that are in no specification.
        """
        kept: dict[str, Json] = {}
        if self._reasoning_field == REASONING_CONTENT:
            kept["reasoning_field"] = REASONING_CONTENT
        if self._extras.fields:
            kept["message"] = self._extras.fields
        if any(draft.extras.fields or draft.custom for draft in drafts):
            kept["calls"] = [draft.build_remainder() for draft in drafts]
        return kept or None
