"""Base classes of answer readers: bytes in, an `Answer` or a `ProviderError` out; no I/O.

Common to all formats: deltas emitted while they arrive, errors inside responses with status 200, completeness when a
connection breaks, and the evidence in an error. A format adds the meaning of its own fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from providers.base import Answer, Finish, ReasoningDelta, TextDelta
from providers.endpoints.arguments import MAX_NESTING, exceeds_depth, parse_model_json
from providers.endpoints.dialects.finishes import UNKNOWN_FINISH, Meaning, find_meaning
from providers.endpoints.dialects.surrogates import SurrogateJoiner
from providers.endpoints.faults import RETRYABLE_KINDS, build_inner_error, clean_excerpt, find_base_error
from providers.endpoints.sse import MAX_LINE_BYTES, SseEvent, SseParser
from providers.endpoints.usage import drop_unreported_zeros
from providers.errors import ErrorKind, ProviderError
from providers.usage import Usage

_BOM = b"\xef\xbb\xbf"


EmitDelta = Callable[[TextDelta | ReasoningDelta], None]
"""Callback for deltas."""


def ignore_delta(_delta: TextDelta | ReasoningDelta) -> None:
    """Discard a delta."""


class AnswerReader(ABC):
    """Reads the body of one answer in pieces of any size and passes deltas to *emit* while they arrive."""

    def __init__(
        self,
        emit: EmitDelta = ignore_delta,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        self._emit = emit
        self._secrets = tuple(secrets)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_joiner = SurrogateJoiner()
        self._reasoning_joiner = SurrogateJoiner()
        self._error: ProviderError | None = None
        self._streamed = True
        """True for a stream, of which a part has a meaning; False for one document, of which a part has none."""
        self.model: str | None = None
        """The model's name as the endpoint reports it."""
        self.finish_raw: str | None = None
        """The finish reason in the endpoint's own words."""
        self.done = False
        """True once the terminal marker has arrived; the rest of the body is ignored."""
        self.signs = 0
        """Number of signs of the model's work so far, such as pieces of text and of calls. Keep-alives, announcements
        and pieces without content are none."""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    def finish_answer(self) -> Answer:
        """End the body and return its answer.

        Raises:
            ProviderError: the body contains an error, is unreadable, or ended early. The part received is in its
            `text`,
                `last_usage` and `model`.
        """
        self._read_rest()
        self._flush_text()
        if self._error is not None:
            raise self._add_evidence(self._error)
        if self.finish_raw is None and not self.done:
            raise self._build_error("truncated", "stream ended without terminal marker", retryable=True)
        if self.finish_raw is None and not self._text and not self._has_output():
            raise self._build_break("the endpoint ended the answer before it began")
        answer = self._build_answer()
        if exceeds_depth(answer.continuation, MAX_NESTING):
            # the next request and records have to encode it again
            raise self._build_error("bad_payload", "the answer is nested too deeply to be sent back", retryable=False)
        return answer

    def finish_broken(self, error: ProviderError) -> Answer:
        """End the body after a broken connection or a timeout; returns the answer if it was complete nevertheless.

        Raises:
            ProviderError: *error* with the part received, or an error that the body had reported before.
        """
        if self._streamed and error.kind in {"truncated", "timeout"}:
            self._read_last_event()
            if self.finish_raw is not None:
                return self.finish_answer()
        self._flush_text()
        if self._error is not None:
            raise self._add_evidence(self._error) from error
        raise self._add_evidence(error)

    # --- for each format ---------------------------------------------------------------------------------------

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Read the next piece.

        Raises:
            ProviderError: `bad_payload`: a line is longer than 64 MiB.
        """

    def last_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last usage report and its notes. Figures that cannot have been counted are left out."""
        usage, notes = self._read_usage()
        return drop_unreported_zeros(usage, notes, answered=bool(self._text or self._reasoning or self._has_output()))

    def _read_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        """The last usage report as the endpoint gave it, and its notes."""
        return None, ("usage_unreported",)

    def _has_output(self) -> bool:
        """True if the answer contains a tool call or a refusal."""
        return False

    def _read_last_event(self) -> None:
        """Read the last event of a broken stream, which may have arrived completely."""
        self._read_rest()

    @abstractmethod
    def _read_rest(self) -> None:
        """Read the rest that was waiting for more bytes."""

    @abstractmethod
    def _build_answer(self) -> Answer:
        """Build the answer from a complete body without errors.

        Raises:
            ProviderError: the finish reason is an error.
        """

    # --- for all formats ---------------------------------------------------------------------------------------

    def _note_model(self, model: object) -> None:
        if isinstance(model, str) and model:
            self.model = model

    def _emit_text(self, piece: object) -> None:
        if isinstance(piece, str) and piece:
            self.signs += 1
            if piece := self._text_joiner.add(piece):
                self._text.append(piece)
                self._emit(TextDelta(piece))

    def _emit_reasoning(self, piece: object) -> None:
        if isinstance(piece, str) and piece:
            self.signs += 1
            if piece := self._reasoning_joiner.add(piece):
                self._reasoning.append(piece)
                self._emit(ReasoningDelta(piece))

    def _flush_text(self) -> None:
        """Emit halves of characters whose other halves never arrived."""
        if rest := self._text_joiner.close():
            self._text.append(rest)
            self._emit(TextDelta(rest))
        if rest := self._reasoning_joiner.close():
            self._reasoning.append(rest)
            self._emit(ReasoningDelta(rest))

    def _translate_finish(self, word: str | None) -> tuple[Finish | None, tuple[str, ...]]:
        """The finish that the endpoint's *word* means, and notes; None if it reported none.

        An unknown word does not invalidate a complete answer: it counts as `stop`, with the note `unknown_finish`.

        Raises:
            ProviderError: the word says that the endpoint broke the answer off (`server_error`), or that the model's
                call is no call (`bad_tool_call`).
        """
        meaning: Meaning | None = find_meaning(word)
        if meaning == "broken":
            raise self._build_break(f"the endpoint ended the answer with {word!r}")
        if meaning == "bad_tool_call":
            raise self._build_error("bad_tool_call", f"the endpoint ended the answer with {word!r}", retryable=False)
        if word is not None and meaning is None:
            return "stop", (UNKNOWN_FINISH,)
        return meaning, ()

    def _build_break(self, message: str) -> ProviderError:
        """Build the error for an answer that the endpoint broke off."""
        error = self._build_error("server_error", message[:200], retryable=True)
        error.broken_off = True
        return error

    def _note_error(self, error: Mapping[str, Any]) -> None:
        """Note an error object in the body; the first one counts."""
        if self._error is None:
            self._error = build_inner_error(dict(error), secrets=self._secrets, mid_stream=self._streamed)

    def _note_unreadable(self, message: str) -> None:
        """Note an unreadable part; reading continues for the usage report."""
        if self._error is None:
            self._error = ProviderError(kind="bad_payload", message=message, retryable=True, mid_stream=self._streamed)

    def _reject_body(self, body: str) -> None:
        """Note a body that is neither JSON nor events."""
        hint = "is the base URL right? " if body.lstrip().startswith("<") else ""
        said = clean_excerpt(body, self._secrets)
        self._note_unreadable(f"the endpoint did not answer with JSON or events; {hint}It said: {said}"[:400])

    def _build_error(self, kind: ErrorKind, message: str, *, retryable: bool) -> ProviderError:
        error = ProviderError(
            kind=kind, message=message, retryable=retryable and kind in RETRYABLE_KINDS, mid_stream=self._streamed
        )
        return self._add_evidence(error)

    def _add_evidence(self, error: ProviderError) -> ProviderError:
        self._flush_text()
        error.usage = self.last_usage()[0]
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
        emit: EmitDelta = ignore_delta,
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
            data = self._detect_form(data)
        if not self._streamed:
            self._document += data
            if len(self._document) > MAX_LINE_BYTES:
                raise self._build_error("bad_payload", "the document is longer than 64 MiB", retryable=False)
            return
        for event in self._events.feed(data):
            self._take_event(event)
            if self.done:
                return

    @abstractmethod
    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        """Read the data of one event."""

    @abstractmethod
    def _take_document(self, document: dict[str, Any]) -> None:
        """Read an answer, or an error, that is one document."""

    def _detect_form(self, data: bytes) -> bytes:
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

    def _take_event(self, event: SseEvent) -> None:
        data = event.data.strip()
        if not data:
            return  # a keep-alive of gateways
        if data == "[DONE]":
            self.done = self.done or self.done_marker
            return
        chunk = parse_model_json(event.data)
        if not isinstance(chunk, dict):
            self._note_unreadable("a chunk of the stream is not a JSON object")
        elif event.name == "error" and "error" not in chunk:
            self._note_error(chunk)
        else:
            if (error := find_base_error(chunk)) is not None:
                self._note_error(error)
            self._take_chunk(chunk)

    def _read_rest(self) -> None:
        events = self._events.close()
        if self._streamed:
            for event in events if not self.done else ():
                # A complete event lacks only its blank line; half of one means nothing.
                if event.data.strip() == "[DONE]" or isinstance(parse_model_json(event.data), dict):
                    self._take_event(event)
            return
        body = self._document.decode("utf-8", "replace")
        document = parse_model_json(body)
        self.done = True
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        if isinstance(document, dict):
            if (error := find_base_error(document)) is not None:
                self._note_error(error)
            self._take_document(document)
        else:
            self._reject_body(body)
