"""Replay for decision flows: a provider that plays recorded and hand-written answers, without keys and network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import anyio.lowlevel
import attrs

from providers.base import Answer, Emit, Request, Responded, TextDelta
from providers.decisions.answer_log import RecordedAnswer
from providers.endpoints.faults import build_refusal
from providers.errors import ProviderError
from providers.recording.divergence import NotRecorded
from providers.registry import ProviderOptions, find_provider
from store.events import Json

PLAYER_NAME = "recorded"

Reread = Callable[[int, bytes, Request, Emit], Answer]
"""Reads a recorded status and body like the original response; see `Endpoint.reread`."""


@runtime_checkable
class RereadingProvider(Protocol):
    """Optional part of the provider port: a provider that can read its recorded answers."""

    def reread(self, status: int, body: bytes, request: Request, emit: Emit) -> Answer:
        """Read the recorded answer to *request* without a network.

        Raises:
            ProviderError: it is a refusal or an incomplete answer.
        """


@attrs.frozen
class HandWritten:
    """A hand-written answer: a model's `{"answer": ..., "confidence": ...}`, or a specialist's JSON."""

    value: Json


AnswersByNode = Mapping[str, HandWritten | Sequence[RecordedAnswer]]
"""Answers of one run by node. The last recorded one counts, since earlier ones are failed tries."""


def read_plain_text(status: int, body: bytes, request: Request, emit: Emit) -> Answer:  # noqa: ARG001 - as every `Reread`
    """Read a recording without a wire format: the body is the answer's text.

    Raises:
        ProviderError: the status is a refusal.
    """
    emit(Responded(status=status))
    if not 200 <= status < 300:
        raise build_refusal(status, {}, body)
    text = body.decode("utf-8", "replace")
    if text:
        emit(TextDelta(text))
    return Answer(text=text, finish="stop")


def find_answer_reader(kind: str, base_url: str | None = None) -> Reread:
    """Find the reader for recorded answers of the provider *kind*, which is opened without a key and gets no request.

    Raises:
        UsageError: there is no such provider, or it cannot be opened without a key.
    """
    if kind == "scripted":  # its scripts are not needed to read what it said
        return read_plain_text
    provider = find_provider(kind)(ProviderOptions(base_url=base_url))
    return provider.reread if isinstance(provider, RereadingProvider) else read_plain_text


class AnswerPlayer:
    """Plays given answers; implements `providers.base.Provider`. Its errors are never retryable.

    Args:
        answers: answers by (case, variant).
        formats: readers for recorded answers of models by variant; specialists and other variants are read as plain
            text.
    """

    name = PLAYER_NAME
    account = PLAYER_NAME

    def __init__(self, answers: Mapping[tuple[str, str], AnswersByNode], formats: Mapping[str, Reread]) -> None:
        self._answers = answers
        self._formats = formats

    def size(self, request: Request) -> int:  # noqa: ARG002 - the port's
        """Zero, as nothing is sent."""
        return 0

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Play the answer for the request's case, variant and node.

        Raises:
            NotRecorded: there is none.
            ProviderError: the recording is a refusal or an incomplete answer.
        """
        await anyio.lowlevel.checkpoint()
        origin = request.origin
        given = self._answers.get((origin.case_id, origin.variant), {}).get(origin.node)
        if isinstance(given, HandWritten):
            return read_plain_text(
                200, json.dumps(given.value, ensure_ascii=False).encode("utf-8", "replace"), request, emit
            )
        if not given:
            raise NotRecorded(origin.case_id, f"there is no recorded answer of node {origin.node!r}")
        recorded = given[-1]
        # requests to specialists name no model
        read = self._formats.get(origin.variant, read_plain_text) if request.model else read_plain_text
        try:
            return read(recorded.status, recorded.content, request, emit)
        except ProviderError as error:
            error.retryable, error.retry_after_s = False, None
            raise

    async def aclose(self) -> None:
        """Do nothing, as there is nothing to release."""
