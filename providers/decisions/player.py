"""Plays recorded and hand-written answers in everybody's place: needs no key, no network and no process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import anyio.lowlevel
import attrs

from providers.base import Answer, Emit, Request, Responded, TextDelta
from providers.decisions.tape import Recorded
from providers.endpoints.faults import refusal
from providers.errors import ProviderError
from providers.recording.divergence import NotRecorded
from providers.registry import ProviderOptions, find_provider
from store.events import Json

NAME = "recorded"

Reread = Callable[[int, bytes, Request, Emit], Answer]
"""Reads a recorded status and body as they were read when they came; see `Endpoint.reread`."""


@runtime_checkable
class Rereads(Protocol):
    """A provider that can read its recorded answers."""

    def reread(self, status: int, body: bytes, request: Request, emit: Emit) -> Answer:
        """Read the recorded answer to *request*, without a network.

        Raises:
            ProviderError: it is no whole answer.
        """


@attrs.frozen
class HandWritten:
    """An answer that somebody wrote: a model's `{"answer": ..., "confidence": ...}`, or a specialist's JSON."""

    value: Json


Answers = Mapping[str, HandWritten | Sequence[Recorded]]
"""One run's, by node. Of several recorded ones the last counts: those before it were tries."""


def plain(status: int, body: bytes, request: Request, emit: Emit) -> Answer:  # noqa: ARG001 - as every `Reread`
    """Reads what has no wire format of its own: the body is the answer's text.

    Raises:
        ProviderError: the status is that of a refusal.
    """
    emit(Responded(status=status))
    if not 200 <= status < 300:
        raise refusal(status, {}, body)
    text = body.decode("utf-8", "replace")
    if text:
        emit(TextDelta(text))
    return Answer(text=text, finish="stop")


def format_of(kind: str, base_url: str | None = None) -> Reread:
    """How answers of the provider called *kind* are read; it is opened without a key and never asked.

    Raises:
        UsageError: there is no such provider, or it cannot be opened so.
    """
    if kind == "scripted":  # its scripts are not needed to read what it said
        return plain
    provider = find_provider(kind)(ProviderOptions(base_url=base_url))
    return provider.reread if isinstance(provider, Rereads) else plain


class Player:
    """Answers from what it was given; implements `providers.base.Provider`. Its errors are never worth another try.

    Args:
        answers: by case and variant.
        formats: how recorded answers of models are read, by variant; specialists have no format, nor has a variant that
            is not named.
    """

    name = NAME
    account = NAME

    def __init__(self, answers: Mapping[tuple[str, str], Answers], formats: Mapping[str, Reread]) -> None:
        self._answers = answers
        self._formats = formats

    def size(self, request: Request) -> int:  # noqa: ARG002 - the port's
        """Nothing goes over a wire."""
        return 0

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """What was given for the request's case, variant and node.

        Raises:
            NotRecorded: nothing was.
            ProviderError: a refusal was recorded, or something that is no whole answer.
        """
        await anyio.lowlevel.checkpoint()
        origin = request.origin
        given = self._answers.get((origin.case_id, origin.variant), {}).get(origin.node)
        if isinstance(given, HandWritten):
            return plain(200, json.dumps(given.value, ensure_ascii=False).encode("utf-8", "replace"), request, emit)
        if not given:
            raise NotRecorded(origin.case_id, f"there is no answer of node {origin.node!r}")
        recorded = given[-1]
        # a specialist is asked for no model
        read = self._formats.get(origin.variant, plain) if request.model else plain
        try:
            return read(recorded.status, recorded.content, request, emit)
        except ProviderError as error:
            error.retryable, error.retry_after_s = False, None
            raise

    async def aclose(self) -> None:
        """Nothing to release."""
