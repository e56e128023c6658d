"""Ollama chat API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

An answer is JSON lines; one that is not streamed is a single line. Tool calls arrive complete and usually without an
id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from providers.base import Answer, ToolCall
from providers.endpoints.arguments import build_tool_call, encode_arguments, parse_model_json
from providers.endpoints.dialects.extras import ExtraFields
from providers.endpoints.dialects.surrogates import join_surrogates
from providers.endpoints.ndjson import MAX_LINE_BYTES, NdjsonParser
from providers.endpoints.reader import AnswerReader, EmitDelta, ignore_delta
from providers.endpoints.usage import read_ollama_usage
from providers.usage import Usage
from store.events import Json

_KNOWN_CALL_FIELDS = frozenset({"id", "type", "function"})
_KNOWN_FUNCTION_FIELDS = frozenset({"index", "name", "arguments"})


class OllamaStream(AnswerReader):
    """Reads the body of one answer in pieces of any size.

    Calls without an id get `call_N`, counted from *first_call*, so that ids are unique in the conversation.
    """

    def __init__(self, emit: EmitDelta = ignore_delta, *, secrets: Iterable[str] = (), first_call: int = 1) -> None:
        super().__init__(emit, secrets=secrets)
        self._lines = NdjsonParser()
        self._unread: list[str] = []
        """Lines after a first line that is not JSON by itself: a document over several lines, or something else."""
        self._unread_size = 0
        self._next_call = first_call
        self._calls: list[ToolCall] = []
        self._extras: list[dict[str, Json]] = []
        """Fields beyond the specification, by call."""
        self._last: Mapping[str, Json] | None = None
        """The line that ended the answer; it contains the usage report."""

    def _read_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        return read_ollama_usage(self._last)

    def _has_output(self) -> bool:
        return bool(self._calls)

    def feed(self, data: bytes) -> None:
        """Read the next piece.

        Raises:
            ProviderError: `bad_payload`: a line is longer than 64 MiB.
        """
        if self.done:
            return
        for line in self._lines.feed(data):
            self._take_line(line)
            if self.done:
                return

    def _take_line(self, line: str) -> None:
        if not self._streamed:
            self._keep_unread(line)
            return
        chunk = parse_model_json(line)
        if isinstance(chunk, dict):
            self._take_chunk(chunk)
        elif self._last is None and self.model is None and not self._error:
            self._streamed = False
            self._keep_unread(line)
        else:
            self._note_unreadable("a line of the stream is not a JSON object")

    def _keep_unread(self, line: str) -> None:
        self._unread.append(line)
        self._unread_size += len(line)
        if self._unread_size > MAX_LINE_BYTES:
            raise self._build_error("bad_payload", "the document is longer than 64 MiB", retryable=False)

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        self._note_model(chunk.get("model"))
        if chunk.get("error"):
            self._note_error(chunk)
        if isinstance(message := chunk.get("message"), dict):
            self._emit_reasoning(message.get("thinking"))
            self._emit_text(message.get("content"))
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, dict):
                    self._add_call(call)
        if chunk.get("done") is True:
            self.done = True
            self._last = chunk
            if isinstance(reason := chunk.get("done_reason"), str) and reason:
                self.finish_raw = reason

    def _add_call(self, call: dict[str, Any]) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        given, name, arguments = call.get("id"), function.get("name"), encode_arguments(function.get("arguments"))
        if not (isinstance(given, str) and given):
            given = f"call_{self._next_call}"
            self._next_call += 1
        self._calls.append(build_tool_call(given, name if isinstance(name, str) else "", join_surrogates(arguments)))
        self.signs += 1
        extras, inner = ExtraFields(_KNOWN_CALL_FIELDS), ExtraFields(_KNOWN_FUNCTION_FIELDS)
        extras.add_fields(call)
        inner.add_fields(function)
        self._extras.append(extras.fields | ({"function": inner.fields} if inner.fields else {}))

    # --- the end ------------------------------------------------------------------------------------------------

    def _read_rest(self) -> None:
        tail = self._lines.close()
        if self.done:
            return
        if not self._streamed or (tail and self.model is None and self._error is None):
            body = "\n".join([*self._unread, tail])
            document = parse_model_json(body)
            self._streamed = False
            if not isinstance(document, dict):
                self._reject_body(body)
                return
            self._take_chunk(document)
            if self._error is None and not self.done:
                self._note_unreadable("the document contains no complete answer")
        elif tail and isinstance(chunk := parse_model_json(tail), dict):
            self._take_chunk(chunk)  # the last line may lack its line end; half a line is ignored

    def _read_last_event(self) -> None:
        if self.model is not None:  # else it may be half of a document
            self._read_rest()

    def _build_answer(self) -> Answer:
        raw = self.finish_raw
        finish, finish_notes = self._translate_finish(raw)
        if self._calls and finish in {"stop", None}:
            finish = "tool_calls"
        usage, notes = self.last_usage()
        return Answer(
            text=self.text,
            reasoning=self.reasoning,
            calls=tuple(self._calls),
            usage=usage,
            finish=finish,
            finish_raw=raw,
            model=self.model,
            continuation={"calls": list(self._extras)} if any(self._extras) else None,
            notes=(*notes, *finish_notes),
        )
