"""Records the raw responses (status and body) of decision flows, without requests and providers' names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import anyio
import attrs

from providers.base import Answer, Body, Emit, Emitted, Origin, Provider, Request
from providers.endpoints.arguments import exceeds_depth
from providers.errors import ErrorKind, ProviderError
from providers.wrapper import ProviderWrapper
from store.documents.positions import parse_json
from store.errors import UsageError
from store.events import Json

TIMEOUT_BODY = "the answer did not come in time"
MAX_JSON_DEPTH = 90
"""Maximum nesting of a body that is kept as JSON; readers of files accept a few levels more."""
MAX_JSON_BYTES = 256 * 1024
"""Maximum bytes of a body that is kept as JSON; a larger one does not fit in a recording."""

_STATUS_BY_KIND: Mapping[ErrorKind, int] = {
    "auth": 401,
    "conflict": 409,
    "invalid_request": 400,
    "not_found": 404,
    "overloaded": 529,
    "permission": 403,
    "quota": 402,
    "rate_limit": 429,
    "request_too_large": 413,
    "timeout": 504,
}
"""Recorded status of errors without one, by kind; 500 for all other kinds."""


@attrs.frozen(kw_only=True)
class RecordedAnswer:
    """One recorded response."""

    status: int
    body: Json
    """An object or an array; otherwise text, in which bytes that are not UTF-8 are replaced."""

    @classmethod
    def from_content(cls, status: int, content: bytes) -> RecordedAnswer:
        """Record a response with the body *content*."""
        return cls(status=status, body=_decode_body(content))

    @property
    def content(self) -> bytes:
        """The body for reading it again. JSON is encoded anew, which makes no difference to readers."""
        text = self.body if isinstance(self.body, str) else json.dumps(self.body, ensure_ascii=False)
        return text.encode("utf-8", "replace")


KeepAnswer = Callable[[Origin, RecordedAnswer], None]
"""Callback for recorded responses, called for every try: the last response of an origin counts."""


class AnswerRecorder(ProviderWrapper):
    """Records the responses of an inner provider; implements `providers.base.Provider`.

    An endpoint must be opened with `keep_bodies`. If a provider emits no body, the answer's text or the error's message
    is recorded. A cancelled request is recorded as a timeout (504), so a caller that cancels a whole run has to discard
    its recording.

    Args:
        inner: the provider that answers.
        keep: receives the responses.
    """

    def __init__(self, inner: Provider, keep: KeepAnswer) -> None:
        super().__init__(inner)
        self._keep = keep

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask the inner provider and record its response.

        Raises:
            ProviderError: the inner provider's error.
        """
        came: list[Body] = []

        def collect_body(item: Emitted) -> None:
            if isinstance(item, Body):
                came.append(item)
            emit(item)

        try:
            answer = await self._inner.answer(request, collect_body)
        except ProviderError as error:
            self._keep(request.origin, _record_body(came[-1]) if came else build_error_answer(error))
            raise
        except anyio.get_cancelled_exc_class():
            self._keep(request.origin, RecordedAnswer(status=_STATUS_BY_KIND["timeout"], body=TIMEOUT_BODY))
            raise
        self._keep(
            request.origin,
            _record_body(came[-1])
            if came
            else RecordedAnswer.from_content(200, answer.text.encode("utf-8", "replace")),
        )
        return answer


@attrs.define
class AnswerLog:
    """Keeps the last response of each node of each run; its `keep_answer` is the callback of `AnswerRecorder`."""

    _answers: dict[tuple[str, str, int], dict[str, RecordedAnswer]] = attrs.field(factory=dict, init=False)

    def keep_answer(self, origin: Origin, recorded: RecordedAnswer) -> None:
        """Keep a response; it replaces an earlier one of the same origin."""
        run = origin.case_id, origin.variant, origin.repetition
        self._answers.setdefault(run, {})[origin.node] = recorded

    def list_answers(self, case_id: str, variant: str, repetition: int = 0) -> dict[str, tuple[RecordedAnswer, ...]]:
        """The responses of one run by node, sorted."""
        answers = self._answers.get((case_id, variant, repetition), {})
        return {node: (recorded,) for node, recorded in sorted(answers.items())}


def build_error_answer(error: ProviderError) -> RecordedAnswer:
    """Record an error without a body by its status and message."""
    status = error.status
    if status is None or not 300 <= status <= 599:
        status = _STATUS_BY_KIND.get(error.kind, 500)
    return RecordedAnswer.from_content(status, error.message.encode("utf-8", "replace"))


def _record_body(body: Body) -> RecordedAnswer:
    return RecordedAnswer.from_content(body.status, body.content)


def _decode_body(content: bytes) -> Json:
    """The body for a recording: as JSON only if encoding it anew loses nothing."""
    text = content.decode("utf-8", "replace")
    if text.lstrip(" \t\r\n")[:1] not in {"{", "["} or len(content) > MAX_JSON_BYTES:
        return text
    try:
        value = parse_json(text.encode(), name="").value
    except UsageError:
        return text
    return text if exceeds_depth(value, MAX_JSON_DEPTH) else value
