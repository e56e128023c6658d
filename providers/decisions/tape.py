"""Takes down what is answered, as it came: a status and a body, and nothing of what was asked or who was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import anyio
import attrs

from providers.base import Answer, Body, Emit, Emitted, InheritedQuirks, Origin, Provider, Request
from providers.endpoints.arguments import deeper
from providers.errors import ErrorKind, ProviderError
from store.documents.positions import parse_json
from store.errors import UsageError
from store.events import Json

LATE = "the answer did not come in time"
MAX_DEPTH = 90
"""Levels of a body that is kept as JSON; readers of files take a few more."""
MAX_JSON_BYTES = 256 * 1024
"""Of a body that is kept as JSON; a larger one fits in no recording."""

_STANDS_FOR: Mapping[ErrorKind, int] = {
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
"""Errors that came with no status have one all the same in a recording; for kinds that none stands for it is 500."""


@attrs.frozen(kw_only=True)
class Recorded:
    """One answer as it came."""

    status: int
    body: Json
    """An object or an array; else text, in which bytes that are no UTF-8 are replaced."""

    @classmethod
    def of(cls, status: int, content: bytes) -> Recorded:
        """The answer with this body."""
        return cls(status=status, body=_settled(content))

    @property
    def content(self) -> bytes:
        """The body as it is read again. JSON is written anew, which changes nothing that a reader looks at."""
        text = self.body if isinstance(self.body, str) else json.dumps(self.body, ensure_ascii=False)
        return text.encode("utf-8", "replace")


Keep = Callable[[Origin, Recorded], None]
"""Where answers go. Told of every try, so that the last one told of an origin is the one that counts."""


class Taped:
    """A provider that passes everything on and takes answers down; implements `providers.base.Provider`.

    An endpoint has to be opened to keep bodies. Of one that hands over none the answer's text is taken down, or the
    error's message. A request that is cancelled is taken down as one that was not answered in time (504): a caller that
    ends a whole run so has to throw away what was taken down of it.

    Args:
        inner: who answers.
        keep: where answers go.
    """

    def __init__(self, inner: Provider, keep: Keep) -> None:
        self._inner = inner
        self._keep = keep

    @property
    def name(self) -> str:
        """The inner provider's."""
        return self._inner.name

    @property
    def account(self) -> str:
        """The inner provider's."""
        return self._inner.account

    @property
    def quirks(self) -> InheritedQuirks:
        """What the inner provider has adapted to; nothing where it does not adapt."""
        return InheritedQuirks(self._inner)

    def size(self, request: Request) -> int:
        """What the inner provider says."""
        return self._inner.size(request)

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask the inner provider, and take down what came.

        Raises:
            ProviderError: what the inner provider raised.
        """
        came: list[Body] = []

        def heard(item: Emitted) -> None:
            if isinstance(item, Body):
                came.append(item)
            emit(item)

        try:
            answer = await self._inner.answer(request, heard)
        except ProviderError as error:
            self._keep(request.origin, _of(came[-1]) if came else failed(error))
            raise
        except anyio.get_cancelled_exc_class():
            self._keep(request.origin, Recorded(status=_STANDS_FOR["timeout"], body=LATE))
            raise
        self._keep(request.origin, _of(came[-1]) if came else Recorded.of(200, answer.text.encode("utf-8", "replace")))
        return answer

    async def aclose(self) -> None:
        """Close the inner provider."""
        await self._inner.aclose()


@attrs.define
class Tape:
    """The last answer of each node of each run; its `keep` is for `Taped`."""

    _answers: dict[tuple[str, str, int], dict[str, Recorded]] = attrs.field(factory=dict, init=False)

    def keep(self, origin: Origin, recorded: Recorded) -> None:
        """Take an answer down, in place of an earlier one of the same origin."""
        run = origin.case_id, origin.variant, origin.repetition
        self._answers.setdefault(run, {})[origin.node] = recorded

    def of(self, case_id: str, variant: str, repetition: int = 0) -> dict[str, tuple[Recorded, ...]]:
        """What was taken down of one run, by node, sorted."""
        answers = self._answers.get((case_id, variant, repetition), {})
        return {node: (recorded,) for node, recorded in sorted(answers.items())}


def failed(error: ProviderError) -> Recorded:
    """What stands for an error that no body came with: its status and its message."""
    status = error.status
    if status is None or not 300 <= status <= 599:
        status = _STANDS_FOR.get(error.kind, 500)
    return Recorded.of(status, error.message.encode("utf-8", "replace"))


def _of(body: Body) -> Recorded:
    return Recorded.of(body.status, body.content)


def _settled(content: bytes) -> Json:
    """The body as a recording holds it: as JSON only where a strict reader finds nothing in it that writing it anew
    would lose.
    """
    text = content.decode("utf-8", "replace")
    if text.lstrip(" \t\r\n")[:1] not in {"{", "["} or len(content) > MAX_JSON_BYTES:
        return text
    try:
        value = parse_json(text.encode(), name="").value
    except UsageError:
        return text
    return text if deeper(value, MAX_DEPTH) else value
