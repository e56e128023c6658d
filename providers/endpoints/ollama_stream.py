"""Ollama chat API: reads answers. Bytes in, an `Answer` or a `ProviderError` out; no I/O.

An answer is JSON lines; one that is not streamed is a single line. Tool calls arrive complete and usually without an
id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from providers.base import Answer, Finish, ToolCall
from providers.endpoints.arguments import as_text, parsed, tool_call
from providers.endpoints.ndjson import MAX_LINE_BYTES, NdjsonParser
from providers.endpoints.reader import AnswerReader, Hear, unheard
from providers.endpoints.usage import read_ollama_usage
from providers.usage import Usage
from store.events import Json

_FINISH: Mapping[str, Finish] = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}
_NOT_ASKED = frozenset({"load", "unload"})
"""Finish reasons of requests that only load or unload a model."""


class OllamaStream(AnswerReader):
    """Reads the body of one answer in pieces of any size.

    Calls without an id get `call_N`, counted from *first_call*, so that ids are unique in the conversation.
    """

    def __init__(self, emit: Hear = unheard, *, secrets: Iterable[str] = (), first_call: int = 1) -> None:
        super().__init__(emit, secrets=secrets)
        self._lines = NdjsonParser()
        self._unread: list[str] = []
        """Lines after a first line that is not JSON by itself: a document over several lines, or something else."""
        self._unread_size = 0
        self._next_call = first_call
        self._calls: list[ToolCall] = []
        self._last: Mapping[str, Json] | None = None
        """The line that ended the answer; it contains the usage report."""

    def usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The usage report and its notes."""
        return read_ollama_usage(self._last)

    def feed(self, data: bytes) -> None:
        """Read the next piece.

        Raises:
            ProviderError: `bad_payload`: a line is longer than 64 MiB.
        """
        if self.done:
            return
        for line in self._lines.feed(data):
            self._line(line)
            if self.done:
                return

    def _line(self, line: str) -> None:
        if not self._streamed:
            self._keep(line)
            return
        chunk = parsed(line)
        if isinstance(chunk, dict):
            self._chunk(chunk)
        elif self._last is None and self.model is None and not self._error:
            self._streamed = False
            self._keep(line)
        else:
            self._bad("a line of the stream is not a JSON object")

    def _keep(self, line: str) -> None:
        self._unread.append(line)
        self._unread_size += len(line)
        if self._unread_size > MAX_LINE_BYTES:
            raise self._failed("bad_payload", "the document is longer than 64 MiB", retryable=False)

    def _chunk(self, chunk: dict[str, Any]) -> None:
        self._named(chunk.get("model"))
        if chunk.get("error"):
            self._report(chunk)
        if isinstance(message := chunk.get("message"), dict):
            self._think(message.get("thinking"))
            self._say(message.get("content"))
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, dict):
                    self._call(call)
        if chunk.get("done") is True:
            self.done = True
            self._last = chunk
            if isinstance(reason := chunk.get("done_reason"), str) and reason:
                self.finish_raw = reason

    def _call(self, call: dict[str, Any]) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        given, name, arguments = call.get("id"), function.get("name"), as_text(function.get("arguments"))
        if not (isinstance(given, str) and given):
            given = f"call_{self._next_call}"
            self._next_call += 1
        self._calls.append(tool_call(given, name if isinstance(name, str) else "", arguments))

    # --- the end ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        tail = self._lines.close()
        if self.done:
            return
        if not self._streamed or (tail and self.model is None and self._error is None):
            body = "\n".join([*self._unread, tail])
            document = parsed(body)
            self._streamed = False
            if not isinstance(document, dict):
                self._no_answer(body)
                return
            self._chunk(document)
            if self._error is None and not self.done:
                self._bad("the document contains no complete answer")
        elif tail and isinstance(chunk := parsed(tail), dict):
            self._chunk(chunk)  # the last line may lack its line end; half a line is ignored

    def _complete(self) -> Answer:
        raw = self.finish_raw
        if raw in _NOT_ASKED:
            raise self._failed("server_error", f"the endpoint ended the answer with {raw!r}", retryable=True)
        finish = _FINISH.get(raw) if raw is not None else None
        if self._calls and finish in {"stop", None}:
            finish = "tool_calls"
        usage, notes = self.usage()
        return Answer(
            text=self.text,
            reasoning=self.reasoning,
            calls=tuple(self._calls),
            usage=usage,
            finish=finish,
            finish_raw=raw,
            model=self.model,
            notes=notes,
        )
