"""Records what a provider is asked and answers, run by run.

The seam is the provider, not the stored events: only here are whole requests to be had, as they leave the gate, and the
answers before anything was redacted. A secret has to be refused by the name of its field, not be found as a mark; and
neither the gate nor the agent knows that it is being recorded.

Of a request that was sent several times the last sending is kept. Which sendings fail is the endpoint's affair; what a
replay checks is what the harness makes of the answer that it gets in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from providers.base import (
    Answer,
    Ask,
    Assignment,
    Body,
    Done,
    Emit,
    Emitted,
    InheritedQuirks,
    Note,
    Provider,
    ReasoningDelta,
    Request,
    Responded,
    Subject,
    TextDelta,
)
from providers.errors import ProviderError
from providers.recording.cassette import RecordedCall
from providers.recording.material import fingerprint
from providers.recording.normalization import Normalizer, Places, Rule, mapped


@attrs.define(kw_only=True)
class Tape:
    """What was recorded of one run."""

    task: str
    places: Places
    normalizer: Normalizer
    calls: list[RecordedCall] = attrs.field(factory=list[RecordedCall])
    last: str = ""
    """The key of the request that was taken down last."""
    whole: bool = False
    """The work went to its end: it was not cut off between two calls or within one."""


class Recorder:
    """A provider that passes everything on and takes it down; implements `providers.base.Provider`.

    Args:
        inner: who answers.
        rules: the `replayNormalize` of each task, by its id.
    """

    def __init__(self, inner: Provider, rules: Callable[[str], Sequence[Rule]]) -> None:
        self._inner = inner
        self._rules = rules
        self.tapes: dict[str, Tape] = {}
        """By the run's marker, SWEEP/POSITION/ATTEMPT."""

    @property
    def name(self) -> str:
        """The inner provider's."""
        return self._inner.name

    @property
    def account(self) -> str:
        """The inner provider's."""
        return self._inner.account

    def size(self, request: Request) -> int:
        """What the inner provider says."""
        return self._inner.size(request)

    @property
    def quirks(self) -> InheritedQuirks:
        """What the inner provider has adapted to; nothing where it does not adapt."""
        return InheritedQuirks(self._inner)

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask the inner provider, and take down what it said.

        Raises:
            ProviderError: what the inner provider raised, which is taken down, too.
        """
        events: list[Responded | TextDelta | ReasoningDelta] = []

        def heard(item: Emitted) -> None:
            if not isinstance(item, Body):
                events.append(item)
            emit(item)

        try:
            answer = await self._inner.answer(request, heard)
        except ProviderError as error:
            self._take(request, events, error)
            raise
        self._take(request, events, answer)
        return answer

    async def aclose(self) -> None:
        """Close the inner provider."""
        await self._inner.aclose()

    def attended(self, make: Callable[[], Subject]) -> Callable[[], Subject]:
        """Subjects as *make* makes them, whose runs are recorded."""
        return lambda: _Attended(make(), self)

    def begin(self, task: Assignment) -> None:
        """A run begins."""
        places, case = Places.of(task), task.origin.case_id
        self.tapes[task.marker] = Tape(task=case, places=places, normalizer=Normalizer(places, self._rules(case)))

    def end(self, task: Assignment) -> None:
        """A run's work has come to its end."""
        self.tapes[task.marker].whole = True

    def _take(
        self,
        request: Request,
        events: Sequence[Responded | TextDelta | ReasoningDelta],
        reply: Answer | ProviderError,
    ) -> None:
        tape = self.tapes.get(request.key.rpartition("/")[0])
        if tape is None:
            return  # nobody's work, such as a judge's: it is no part of what a replay repeats
        asked = tape.normalizer.material(request)
        hide = tape.places.hide
        call = RecordedCall(
            request=asked,
            fingerprint=fingerprint(asked),
            events=tuple(
                event if isinstance(event, Responded) else attrs.evolve(event, text=hide(event.text))
                for event in events
            ),
            reply=reply if isinstance(reply, ProviderError) else with_texts(reply, hide),
        )
        if tape.last == request.key:
            tape.calls[-1] = call
        else:
            tape.calls.append(call)
        tape.last = request.key


class _Attended:
    """A subject whose run a recorder knows of."""

    def __init__(self, inner: Subject, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """As the inner one."""
        self._recorder.begin(task)
        done = await self._inner.work(task, ask, note)
        self._recorder.end(task)
        return done

    def so_far(self, reason: str) -> Done:
        """As the inner one."""
        return self._inner.so_far(reason)


def with_texts(answer: Answer, change: Callable[[str], str]) -> Answer:
    """The answer with its texts changed. Ids of calls and continuation data stay as the provider gave them."""
    return attrs.evolve(
        answer,
        text=change(answer.text),
        reasoning=change(answer.reasoning),
        refusal=change(answer.refusal),
        calls=tuple(
            attrs.evolve(
                call,
                raw=change(call.raw),
                arguments=None if call.arguments is None else mapped(dict(call.arguments), change),
            )
            for call in answer.calls
        ),
    )
