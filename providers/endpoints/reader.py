"""Reads the body of one answer, whatever its wire format: bytes in, an `Answer` or a `ProviderError` out. No I/O.

What all formats have in common is here: deltas told while they come, errors inside answers whose status was 200, what
counts as complete when a connection breaks, and the evidence an error carries. A format adds what its own words mean.
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
"""Where deltas go."""


def unheard(_delta: TextDelta | ReasoningDelta) -> None:
    """Nobody listens."""


class AnswerReader(ABC):
    """The body of one answer, fed in pieces cut anywhere. Deltas go to *emit* while they come."""

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
        """The body is a stream, so a part of it means something; a part of one document does not."""
        self.model: str | None = None
        """The resolved model, as the endpoint names it."""
        self.finish_raw: str | None = None
        """The endpoint's own word for how it ended."""
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

    def finish(self) -> Answer:
        """The body is over.

        Raises:
            ProviderError: it holds an error, cannot be read, or ended early. What came is in its `text`, `usage` and
                `model`.
        """
        self._end()
        if self._error is not None:
            raise self._with_evidence(self._error)
        if self.finish_raw is None and not self.done:
            raise self._failed("truncated", "stream ended without terminal marker", retryable=True)
        answer = self._complete()
        if deeper(answer.continuation, MAX_DEPTH):
            # it would have to be written again, into the next request and into records
            raise self._failed("bad_payload", "the answer is nested too deeply to be sent back", retryable=False)
        return answer

    def broken(self, error: ProviderError) -> Answer:
        """The connection broke, or nothing came any more. If the answer was complete all the same, it counts.

        Raises:
            ProviderError: *error*, with what came; or the error that the body had reported before.
        """
        if self._streamed and error.kind in {"truncated", "timeout"} and self.finish_raw is not None:
            return self.finish()
        if self._error is not None:
            raise self._with_evidence(self._error) from error
        raise self._with_evidence(error)

    # --- what a format says -------------------------------------------------------------------------------------

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            ProviderError: `bad_payload`: a line is longer than 64 MiB.
        """

    @abstractmethod
    def usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last report of tokens, and what is to be noted about it."""

    @abstractmethod
    def _end(self) -> None:
        """Read what was waiting for more."""

    @abstractmethod
    def _complete(self) -> Answer:
        """The answer, now that all of it is there and none of it is an error.

        Raises:
            ProviderError: the endpoint's word for the end says that it is no answer.
        """

    # --- what every format does ---------------------------------------------------------------------------------

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
        """The body holds an error object. The first one counts."""
        if self._error is None:
            self._error = inside_answer(dict(error), secrets=self._secrets, mid_stream=self._streamed)

    def _bad(self, message: str) -> None:
        """Something cannot be read; what follows still is, for its usage."""
        if self._error is None:
            self._error = ProviderError(kind="bad_payload", message=message, retryable=True, mid_stream=self._streamed)

    def _no_answer(self, body: str) -> None:
        """The body is something else altogether."""
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
    """A body of server-sent events, or one JSON document in their place.

    Which of the two it is is told by its first character, which endpoints get right more often than the content type.
    """

    done_marker: ClassVar[bool] = False
    """`[DONE]` ends a stream of this format; in others it means nothing."""

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
        """Read on.

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
        """Take in one event's data."""

    @abstractmethod
    def _whole(self, document: dict[str, Any]) -> None:
        """Take in an answer that came as one document, or its error."""

    def _open(self, data: bytes) -> bytes:
        """Find out by the first character what this is; returns what is to be read."""
        self._markup += data
        seen = self._markup.removeprefix(_BOM).lstrip()
        if _BOM.startswith(self._markup):
            return b""
        if not seen:
            self._markup = b""  # not gathered: an endpoint may send spaces for as long as it likes
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
            self._bad("a chunk of the stream is no JSON object")
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
