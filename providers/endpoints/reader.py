"""Base classes of answer readers: bytes in, an `Answer` or a `ProviderError` out; no I/O.

Common to all formats: deltas emitted while they arrive, errors inside responses with status 200, completeness when a
connection breaks, and the evidence in an error. A format adds the meaning of its own fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from providers.base import Answer, ReasoningDelta, TextDelta
from providers.endpoints.arguments import MAX_DEPTH, deeper, parsed
from providers.endpoints.faults import RETRYABLE, excerpt, inside_answer
from providers.endpoints.sse import MAX_LINE_BYTES, SseEvent, SseParser
from providers.errors import ErrorKind, ProviderError
from providers.usage import Usage

_BOM = b"\xef\xbb\xbf"


Hear = Callable[[TextDelta | ReasoningDelta], None]
"""Callback for deltas."""


def unheard(_delta: TextDelta | ReasoningDelta) -> None:
    """Discard a delta."""


class AnswerReader(ABC):
    """Reads the body of one answer in pieces of any size and passes deltas to *emit* while they arrive."""

    def __init__(
        self,
        emit: Hear = unheard,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        self._emit = emit
        self._secrets = tuple(secrets)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._error: ProviderError | None = None
        self._streamed = True
        """True for a stream, of which a part has a meaning; False for one document, of which a part has none."""
        self.model: str | None = None
        """The model's name as the endpoint reports it."""
        self.finish_raw: str | None = None
        """The finish reason in the endpoint's own words."""
        self.done = False
        """True once the terminal marker has arrived; the rest of the body is ignored."""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    def finish(self) -> Answer:
        """End the body and return its answer.

        Raises:
            ProviderError: the body contains an error, is unreadable, or ended early. The part received is in its
            `text`,
                `usage` and `model`.
        """
        self._end()
        if self._error is not None:
            raise self._with_evidence(self._error)
        if self.finish_raw is None and not self.done:
            raise self._failed("truncated", "stream ended without terminal marker", retryable=True)
        answer = self._complete()
        if deeper(answer.continuation, MAX_DEPTH):
            # the next request and records have to encode it again
            raise self._failed("bad_payload", "the answer is nested too deeply to be sent back", retryable=False)
        return answer

    def broken(self, error: ProviderError) -> Answer:
        """End the body after a broken connection or a timeout; returns the answer if it was complete nevertheless.

        Raises:
            ProviderError: *error* with the part received, or an error that the body had reported before.
        """
        if self._streamed and error.kind in {"truncated", "timeout"} and self.finish_raw is not None:
            return self.finish()
        if self._error is not None:
            raise self._with_evidence(self._error) from error
        raise self._with_evidence(error)

    # --- for each format ---------------------------------------------------------------------------------------

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Read the next piece.

        Raises:
            ProviderError: `bad_payload`: a line is longer than 64 MiB.
        """

    @abstractmethod
    def usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last usage report and its notes."""

    @abstractmethod
    def _end(self) -> None:
        """Read the rest that was waiting for more bytes."""

    @abstractmethod
    def _complete(self) -> Answer:
        """Build the answer from a complete body without errors.

        Raises:
            ProviderError: the finish reason is an error.
        """

    # --- for all formats ---------------------------------------------------------------------------------------

    def _named(self, model: object) -> None:
        if isinstance(model, str) and model:
            self.model = model

    def _say(self, piece: object) -> None:
        if isinstance(piece, str) and piece:
            self._text.append(piece)
            self._emit(TextDelta(piece))

    def _think(self, piece: object) -> None:
        if isinstance(piece, str) and piece:
            self._reasoning.append(piece)
            self._emit(ReasoningDelta(piece))

    def _report(self, error: Mapping[str, Any]) -> None:
        """Note an error object in the body; the first one counts."""
        if self._error is None:
            self._error = inside_answer(dict(error), secrets=self._secrets, mid_stream=self._streamed)

    def _bad(self, message: str) -> None:
        """Note an unreadable part; reading continues for the usage report."""
        if self._error is None:
            self._error = ProviderError(kind="bad_payload", message=message, retryable=True, mid_stream=self._streamed)

    def _no_answer(self, body: str) -> None:
        """Note a body that is neither JSON nor events."""
        hint = "is the base URL right? " if body.lstrip().startswith("<") else ""
        said = excerpt(body, self._secrets)
        self._bad(f"the endpoint did not answer with JSON or events; {hint}It said: {said}"[:400])

    def _failed(self, kind: ErrorKind, message: str, *, retryable: bool) -> ProviderError:
        error = ProviderError(
            kind=kind, message=message, retryable=retryable and kind in RETRYABLE, mid_stream=self._streamed
        )
        return self._with_evidence(error)

    def _with_evidence(self, error: ProviderError) -> ProviderError:
        error.usage = self.usage()[0]
        error.text = self.text
        error.model = self.model
        return error


class EventReader(AnswerReader):
    """Reads a body of server-sent events, or one JSON document instead.

    The first character tells the two apart: endpoints get it right more often than the content type.
    """

    done_marker: ClassVar[bool] = False
    """True if `[DONE]` ends a stream of this format."""

    def __init__(
        self,
        emit: Hear = unheard,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(emit, secrets=secrets)
        self._events = SseParser()
        self._document = bytearray()
        self._opened = False
        self._markup = b""

    def feed(self, data: bytes) -> None:
        """Read the next piece.

        Raises:
            ProviderError: `bad_payload`: a line, or the document, is longer than 64 MiB.
        """
        if self.done:
            return
        if not self._opened:
            data = self._open(data)
        if not self._streamed:
            self._document += data
            if len(self._document) > MAX_LINE_BYTES:
                raise self._failed("bad_payload", "the document is longer than 64 MiB", retryable=False)
            return
        for event in self._events.feed(data):
            self._event(event)
            if self.done:
                return

    @abstractmethod
    def _chunk(self, chunk: dict[str, Any]) -> None:
        """Read the data of one event."""

    @abstractmethod
    def _whole(self, document: dict[str, Any]) -> None:
        """Read an answer, or an error, that is one document."""

    def _open(self, data: bytes) -> bytes:
        """Detect stream or document by the first character; returns the bytes to read."""
        self._markup += data
        seen = self._markup.removeprefix(_BOM).lstrip()
        if _BOM.startswith(self._markup):
            return b""
        if not seen:
            self._markup = b""  # not kept: an endpoint may send spaces without end
            return b""
        data, self._markup = self._markup, b""
        self._opened = True
        if seen[:1] in b"{[<":
            self._streamed = False
            return seen
        return data

    def _event(self, event: SseEvent) -> None:
        if event.data.strip() == "[DONE]":
            self.done = self.done or self.done_marker
            return
        chunk = parsed(event.data)
        if not isinstance(chunk, dict):
            self._bad("a chunk of the stream is not a JSON object")
        elif event.name == "error" and "error" not in chunk:
            self._report(chunk)
        else:
            self._chunk(chunk)

    def _end(self) -> None:
        self._events.close()
        if self._streamed:
            return
        body = self._document.decode("utf-8", "replace")
        document = parsed(body)
        self.done = True
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        if isinstance(document, dict):
            self._whole(document)
        else:
            self._no_answer(body)
