"""Reads the answers of chat completions endpoints: bytes in, an `Answer` or a `ProviderError` out. No I/O.

The format has as many dialects as servers. What is read here is the union of what they send: a stream of chunks or one
document, whichever comes; reasoning under two names; calls in fragments, whole, or without an index; usage on any chunk
or on none; errors inside answers whose status was 200.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from providers.base import Answer, ErrorKind, Finish, ProviderError, ReasoningDelta, TextDelta, ToolCall, Usage
from providers.faults import RETRYABLE, excerpt, inside_answer
from providers.sse import MAX_LINE_BYTES, SseEvent, SseParser
from providers.usage import read_usage
from store.events import Json

REASONING_CONTENT = "reasoning_content"

_FINISH: Mapping[str, Finish] = {
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


def _nothing(_delta: TextDelta | ReasoningDelta) -> None:
    """Nobody listens."""


@attrs.define(eq=False)
class _Draft:
    """A tool call that is still arriving."""

    index: int | None
    id: str = ""
    name: str = ""
    fragments: list[str] = attrs.field(factory=list[str])


class ChatStream:
    """The body of one answer, fed in pieces cut anywhere.

    Whether it is a stream of events or one JSON document is told by its first character, which endpoints get right
    more often than the content type. Deltas go to *emit* while they come.
    """

    def __init__(
        self,
        emit: Callable[[TextDelta | ReasoningDelta], None] = _nothing,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        self._emit = emit
        self._secrets = tuple(secrets)
        self._events = SseParser()
        self._document: bytearray | None = None
        self._opened = False
        self._markup = b""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field: str | None = None
        self._refusal: list[str] = []
        self._drafts: list[_Draft] = []
        self._old_call: _Draft | None = None
        self._usage: Mapping[str, Json] | None = None
        self._llama_cached: Json = None
        self._finish_raw: str | None = None
        self._error: ProviderError | None = None
        self.model: str | None = None
        """The resolved model, as the endpoint names it."""
        self.done = False
        """The terminal marker has come; nothing after it counts."""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    @property
    def finish_raw(self) -> str | None:
        """The endpoint's own word for how it ended."""
        return self._finish_raw

    def usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last report of tokens, and what is to be noted about it."""
        return read_usage(self._usage, cached_elsewhere=self._llama_cached)

    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            ProviderError: `bad_payload`: a line is longer than 64 MiB.
        """
        if self.done:
            return
        if not self._opened:
            data = self._open(data)
        if self._document is not None:
            self._document += data
            if len(self._document) > MAX_LINE_BYTES:
                raise self._failed("bad_payload", "the document is longer than 64 MiB", retryable=False)
            return
        for event in self._events.feed(data):
            self._event(event)
            if self.done:
                return

    def finish(self) -> Answer:
        """The body is over.

        Raises:
            ProviderError: it holds an error, cannot be read, or ended early. What came is in its `text`, `usage` and
                `model`.
        """
        self._events.close()
        if self._document is not None:
            self._read_document(bytes(self._document))
        return self._answer()

    def broken(self, error: ProviderError) -> Answer:
        """The connection broke, or nothing came any more. If the answer was complete all the same, it counts.

        Raises:
            ProviderError: *error*, with what came; or the error that the body had reported before.
        """
        if self._document is None and error.kind in {"truncated", "timeout"} and self._finish_raw is not None:
            return self.finish()
        if self._error is not None:
            raise self._with_evidence(self._error) from error
        raise self._with_evidence(error)

    # --- pieces -------------------------------------------------------------------------------------------------

    def _open(self, data: bytes) -> bytes:
        """Find out by the first character what this is; returns what is to be read."""
        self._markup += data
        seen = self._markup.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not seen or b"\xef\xbb\xbf".startswith(self._markup):
            return b""
        data, self._markup = self._markup, b""
        self._opened = True
        if seen[:1] in b"{[<":
            self._document = bytearray()
            return seen
        return data

    def _event(self, event: SseEvent) -> None:
        if event.data.strip() == "[DONE]":
            self.done = True
            return
        chunk = _parsed(event.data)
        if not isinstance(chunk, dict):
            self._bad("a chunk of the stream is no JSON object")
        elif event.name == "error" and "error" not in chunk:
            self._report(chunk)
        else:
            self._chunk(chunk, "delta")

    def _read_document(self, body: bytes) -> None:
        document = _parsed(body.decode("utf-8", "replace"))
        self.done = True
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        if isinstance(document, dict):
            self._chunk(document, "message")
            if self._error is None and not isinstance(document.get("choices"), list):
                self._bad("the document holds no choices")
        else:
            text = excerpt(body.decode("utf-8", "replace"), self._secrets)
            hint = "is the base URL right? " if body.startswith(b"<") else ""
            self._bad(f"the endpoint did not answer with JSON or events; {hint}It said: {text}"[:400])

    def _chunk(self, chunk: dict[str, Any], part: str) -> None:
        if isinstance(model := chunk.get("model"), str) and model:
            self.model = model
        self._count(chunk)
        if chunk.get("error") or chunk.get("object") == "error":
            self._report(chunk)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
                if isinstance(reason := choice.get("finish_reason"), str) and reason:
                    self._finish_raw = reason
                if isinstance(delta := choice.get(part) or choice.get("delta") or choice.get("message"), dict):
                    self._delta(delta)

    def _count(self, chunk: dict[str, Any]) -> None:
        groq = chunk.get("x_groq")
        for usage in (groq.get("usage") if isinstance(groq, dict) else None, chunk.get("usage")):
            if isinstance(usage, dict) and usage:
                self._usage = usage
        if isinstance(timings := chunk.get("timings"), dict):
            self._llama_cached = timings.get("cache_n")

    def _delta(self, delta: dict[str, Any]) -> None:
        for name in (REASONING_CONTENT, "reasoning"):
            if isinstance(piece := delta.get(name), str) and piece:
                self._reasoning_field = self._reasoning_field or name
                self._think(piece)
                break  # some gateways send the same piece under both names
        content = delta.get("content")
        if isinstance(content, str):
            self._say(content)
        elif isinstance(content, list):
            for item in content:
                self._part(item)
        if isinstance(refusal := delta.get("refusal"), str):
            self._refusal.append(refusal)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._call(call)
        if isinstance(old := delta.get("function_call"), dict):
            self._old_call = self._old_call or _Draft(None)
            _fill(self._old_call, {"function": old})

    def _part(self, item: Json) -> None:
        """One typed part of a content list."""
        if not isinstance(item, dict):
            return
        if item.get("type") == "thinking":
            thought = item.get("thinking")
            parts = thought if isinstance(thought, list) else [thought]
            for part in parts:
                piece = part.get("text") if isinstance(part, dict) else part
                if isinstance(piece, str):
                    self._think(piece)
        elif item.get("type") in ("text", "output_text", None) and isinstance(piece := item.get("text"), str):
            self._say(piece)

    def _say(self, piece: str) -> None:
        if piece:
            self._text.append(piece)
            self._emit(TextDelta(piece))

    def _think(self, piece: str) -> None:
        if piece:
            self._reasoning.append(piece)
            self._emit(ReasoningDelta(piece))

    def _call(self, piece: dict[str, Any]) -> None:
        index, given = piece.get("index"), piece.get("id")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        given = given if isinstance(given, str) else ""
        function = piece.get("function")
        named = isinstance(function, dict) and bool(function.get("name"))
        if index is not None:
            draft = next((d for d in reversed(self._drafts) if d.index == index), None)
            # Some gateways number every parallel call 0; another id with a name is another call.
            if draft is not None and named and given and draft.id and given != draft.id:
                draft = None
        else:
            draft = self._drafts[-1] if self._drafts else None
            if draft is not None and given and given != draft.id:
                draft = next((d for d in self._drafts if d.id == given), None)
        if draft is None:
            draft = _Draft(index)
            self._drafts.append(draft)
        _fill(draft, piece)

    # --- the end ------------------------------------------------------------------------------------------------

    def _answer(self) -> Answer:
        if self._error is not None:
            raise self._with_evidence(self._error)
        raw = self._finish_raw
        if raw is None and not self.done:
            raise self._failed("truncated", "stream ended without terminal marker", retryable=True)
        finish = _FINISH.get(raw) if raw is not None else None
        if finish == "error":
            raise self._failed("server_error", f"the endpoint ended the answer with {raw!r}", retryable=True)
        drafts = self._drafts or ([self._old_call] if self._old_call is not None else [])
        calls = tuple(_finished(draft, number) for number, draft in enumerate(drafts, start=1))
        refusal = "".join(self._refusal)
        if calls and (raw is None or finish == "stop"):
            finish = "tool_calls"
        elif refusal and finish in {"stop", None}:
            finish = "refusal"
        usage, notes = self.usage()
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
            # Such endpoints want the reasoning of a turn with calls back; it stands in the turn, this says how.
            continuation={"reasoning_field": field} if field == REASONING_CONTENT else None,
            notes=notes,
        )

    def _report(self, chunk: dict[str, Any]) -> None:
        if self._error is None:
            self._error = inside_answer(chunk, secrets=self._secrets, mid_stream=self._document is None)

    def _bad(self, message: str) -> None:
        if self._error is None:
            self._error = ProviderError(
                kind="bad_payload", message=message, retryable=True, mid_stream=self._document is None
            )

    def _failed(self, kind: ErrorKind, message: str, *, retryable: bool) -> ProviderError:
        error = ProviderError(
            kind=kind, message=message, retryable=retryable and kind in RETRYABLE, mid_stream=self._document is None
        )
        return self._with_evidence(error)

    def _with_evidence(self, error: ProviderError) -> ProviderError:
        error.usage = self.usage()[0]
        error.text = self.text
        error.model = self.model
        return error


def _fill(draft: _Draft, piece: dict[str, Any]) -> None:
    function = piece.get("function")
    function = function if isinstance(function, dict) else {}
    given, name, arguments = piece.get("id"), function.get("name"), function.get("arguments")
    if not draft.id and isinstance(given, str):
        draft.id = given
    if not draft.name and isinstance(name, str):
        draft.name = name
    if isinstance(arguments, str):
        draft.fragments.append(arguments)
    elif arguments is not None:
        draft.fragments.append(json.dumps(arguments, ensure_ascii=False))


def _finished(draft: _Draft, number: int) -> ToolCall:
    raw = "".join(draft.fragments)
    call_id = draft.id or f"call_{number}"
    if raw.strip() in {"", "null"}:
        return ToolCall(id=call_id, name=draft.name, arguments={}, raw=raw)
    arguments = _parsed(raw)
    if arguments is _INVALID:
        return ToolCall(id=call_id, name=draft.name, arguments=None, raw=raw, problem="invalid_json")
    if not isinstance(arguments, dict):
        return ToolCall(id=call_id, name=draft.name, arguments=None, raw=raw, problem="not_an_object")
    return ToolCall(id=call_id, name=draft.name, arguments=arguments, raw=raw)


_INVALID = object()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _parsed(text: str) -> Any:
    """The JSON value, or `_INVALID`: bad syntax, NaN and its kin, nesting or numbers beyond all measure."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _INVALID
