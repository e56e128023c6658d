"""Anthropic Messages API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

An answer is a list of content blocks. Thinking blocks and blocks of the endpoint's own tools must go back unchanged
with the next request: the blocks of such an answer are its `continuation`, in which placeholders mark the tool calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from providers.base import Answer, ToolCall
from providers.endpoints.arguments import INVALID_JSON, build_tool_call, encode_arguments, parse_model_json
from providers.endpoints.dialects.surrogates import join_surrogates
from providers.endpoints.reader import EmitDelta, EventReader, ignore_delta
from providers.endpoints.usage import read_messages_usage
from providers.usage import Usage
from store.events import Json

CALL_PLACEHOLDER = "call"
"""The type of the placeholder for a tool call in a continuation."""
STREAM_RESTARTED = "stream_restarted"
"""Note: a gateway restarted the answer inside one stream; earlier deltas do not count."""

_KNOWN_CALL_FIELDS = frozenset({"type", "id", "name", "input"})


@attrs.define(eq=False)
class _Block:
    """A content block that is still arriving."""

    content: dict[str, Any]
    pieces: dict[str, list[str]] = attrs.field(factory=dict[str, list[str]])
    """Fragments of its texts by field."""
    understood: bool = True
    """True if every delta had a known type, so that the block is complete and can go back."""

    @property
    def kind(self) -> str:
        kind = self.content.get("type")
        return kind if isinstance(kind, str) else ""

    def add_piece(self, field: str, piece: Any) -> None:
        if isinstance(piece, str):
            self.pieces.setdefault(field, []).append(piece)

    def join_raw_input(self) -> str:
        """The arguments as the model wrote them: from fragments, or from the start of the block."""
        raw = "".join(self.pieces.get("input", ()))
        return join_surrogates(raw) or encode_arguments(self.content.get("input"))

    def build_placeholder(self) -> dict[str, Json]:
        """The placeholder for a tool call, with the fields that came with the call."""
        extra = {name: value for name, value in self.content.items() if name not in _KNOWN_CALL_FIELDS}
        return {"type": CALL_PLACEHOLDER, "extra": extra} if extra else {"type": CALL_PLACEHOLDER}

    def build_content(self) -> dict[str, Json]:
        """The complete block, as in an answer that is one document."""
        whole = dict(self.content)
        for field, pieces in self.pieces.items():
            text = join_surrogates("".join(pieces))
            if field != "input":
                before = whole.get(field)
                whole[field] = (before if isinstance(before, str) else "") + text
            elif text:
                value = parse_model_json(text)
                whole[field] = value if value is not INVALID_JSON else {}
        return whole


class MessageStream(EventReader):
    """Reads the body of one answer in pieces of any size: a stream of blocks, or one document."""

    def __init__(self, emit: EmitDelta = ignore_delta, *, secrets: Iterable[str] = ()) -> None:
        super().__init__(emit, secrets=secrets)
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Json] = {}
        self._restarted = False

    def _read_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        return read_messages_usage(self._usage)

    def _has_output(self) -> bool:
        return any(block.kind != "text" for block in self._blocks.values())

    # --- events -------------------------------------------------------------------------------------------------

    def _take_document(self, document: dict[str, Any]) -> None:
        if document.get("error"):
            self._note_error(document)
        elif not isinstance(blocks := document.get("content"), list):
            self._note_unreadable("the document contains no content")
        else:
            self._note_model(document.get("model"))
            self._update_usage(document)
            for index, block in enumerate(blocks):
                self._begin_block(index, block)
            self._note_stop_reason(document)

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        match chunk.get("type"):
            case "content_block_delta":
                self._extend_block(chunk.get("index"), chunk.get("delta"))
            case "content_block_start":
                self._begin_block(chunk.get("index"), chunk.get("content_block"))
            case "message_start":
                self._start_message(chunk.get("message"))
            case "message_delta":
                self._note_stop_reason(chunk.get("delta"))
                self._update_usage(chunk)
            case "message_stop":
                self._update_usage(chunk)
                self.done = True
            case _ if chunk.get("error"):
                self._note_error(chunk)

    def _start_message(self, message: Any) -> None:
        """Start the answer; some gateways restart it after a fault of their own."""
        if self._blocks:
            self._restarted = True
        self._flush_text()
        self._blocks.clear()
        self._text.clear()
        self._reasoning.clear()
        self.finish_raw = None
        if isinstance(message, dict):
            self._note_model(message.get("model"))
            self._usage = {}
            self._update_usage(message)

    def _update_usage(self, holder: dict[str, Any]) -> None:
        """Merge a usage report. Reports are cumulative: each replaces the fields that it contains."""
        if isinstance(usage := holder.get("usage"), dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _note_stop_reason(self, holder: Any) -> None:
        if isinstance(holder, dict) and isinstance(reason := holder.get("stop_reason"), str) and reason:
            self.finish_raw = reason
            self.signs += 1

    def _begin_block(self, index: Any, content: Any) -> None:
        if not isinstance(content, dict):
            return
        self._blocks[index if isinstance(index, int) else len(self._blocks)] = _Block(content)
        self.signs += 1
        match content.get("type"):
            case "text":
                self._emit_text(content.get("text"))
            case "thinking":
                self._emit_reasoning(content.get("thinking"))

    def _extend_block(self, index: Any, delta: Any) -> None:
        if not isinstance(delta, dict):
            return
        latest = next(reversed(self._blocks.values()), None)
        block = self._blocks.get(index) if isinstance(index, int) else latest
        if block is None and delta.get("type") == "text_delta":
            self._begin_block(index, {"type": "text", "text": ""})
            block = next(reversed(self._blocks.values()))
        if block is None:
            return
        self.signs += 1
        match delta.get("type"):
            case "text_delta":
                block.add_piece("text", piece := delta.get("text"))
                self._emit_text(piece)
            case "thinking_delta":
                block.add_piece("thinking", piece := delta.get("thinking"))
                self._emit_reasoning(piece)
            case "signature_delta":
                block.add_piece("signature", delta.get("signature"))
            case "input_json_delta":
                block.add_piece("input", delta.get("partial_json"))
            case "citations_delta" if isinstance(block.content.get("citations"), list):
                block.content["citations"].append(delta.get("citation"))
            case "citations_delta":
                block.content["citations"] = [delta.get("citation")]
            case _:
                block.understood = False

    # --- the end ------------------------------------------------------------------------------------------------

    def _build_answer(self) -> Answer:
        raw = self.finish_raw
        finish, finish_notes = self._translate_finish(raw)
        calls = self._build_calls()
        if calls and finish in {"stop", None}:
            finish = "tool_calls"
        usage, notes = self.last_usage()
        return Answer(
            text=self.text,
            reasoning=self.reasoning,
            calls=calls,
            usage=usage,
            finish=finish,
            finish_raw=raw,
            model=self.model,
            continuation=self._build_continuation(),
            notes=(*notes, *finish_notes, *((STREAM_RESTARTED,) if self._restarted else ())),
        )

    def _build_calls(self) -> tuple[ToolCall, ...]:
        blocks = [block for block in self._blocks.values() if block.kind == "tool_use"]
        return tuple(
            build_tool_call(
                _read_string(block, "id") or f"call_{number}", _read_string(block, "name"), block.join_raw_input()
            )
            for number, block in enumerate(blocks, start=1)
        )

    def _build_continuation(self) -> Json:
        if all(
            block.kind == "text" or (block.kind == "tool_use" and block.content.keys() <= _KNOWN_CALL_FIELDS)
            for block in self._blocks.values()
        ):
            return None
        blocks: list[Json] = [
            block.build_placeholder() if block.kind == "tool_use" else block.build_content()
            for block in self._blocks.values()
            if block.understood or block.kind in {"text", "tool_use"}
        ]
        return {"blocks": blocks}


def _read_string(block: _Block, field: str) -> str:
    value = block.content.get(field)
    return value if isinstance(value, str) else ""
