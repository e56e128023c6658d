"""Recorder: wraps a provider and records its requests and answers, run by run.

It sits at the provider port and not at the stored events, since only here are complete requests, and answers before
redaction: a secret has to be refused with the name of its field, not found as a redaction mark. Neither the gate nor
the agent knows about the recording.

Only the last send of a request is kept. Failed sends are a matter of the endpoint; a replay checks how the harness
handles the final answer.
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
from providers.wrapper import ProviderWrapper


@attrs.define(kw_only=True)
class Tape:
    """The recording of one run."""

    task: str
    places: Places
    normalizer: Normalizer
    calls: list[RecordedCall] = attrs.field(factory=list[RecordedCall])
    last: str = ""
    """The key of the last recorded request."""
    whole: bool = False
    """True if the run ended normally, and was not cut off during or between calls."""


class Recorder(ProviderWrapper):
    """Records the traffic of an inner provider; implements `providers.base.Provider`.

    Args:
        inner: the provider that answers.
        rules: returns the `replayNormalize` rules for a task's id.
    """

    def __init__(self, inner: Provider, rules: Callable[[str], Sequence[Rule]]) -> None:
        super().__init__(inner)
        self._rules = rules
        self.tapes: dict[str, Tape] = {}
        """Recordings by the run's marker, SWEEP/POSITION/ATTEMPT."""

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask the inner provider and record its reply.

        Raises:
            ProviderError: the inner provider's error, which is recorded too.
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

    def attended(self, make: Callable[[], Subject]) -> Callable[[], Subject]:
        """Wrap a factory of subjects so that their runs are recorded."""
        return lambda: _Attended(make(), self)

    def begin(self, task: Assignment) -> None:
        """Start the recording of a run."""
        places, case = Places.of(task), task.origin.case_id
        self.tapes[task.marker] = Tape(task=case, places=places, normalizer=Normalizer(places, self._rules(case)))

    def end(self, task: Assignment) -> None:
        """Mark the recording of a run as complete."""
        self.tapes[task.marker].whole = True

    def _take(
        self,
        request: Request,
        events: Sequence[Responded | TextDelta | ReasoningDelta],
        reply: Answer | ProviderError,
    ) -> None:
        tape = self.tapes.get(request.key.rpartition("/")[0])
        if tape is None:
            return  # not a call of a run (a judge's, for instance), so a replay does not repeat it
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
    """A subject that reports the start and end of its run to a recorder."""

    def __init__(self, inner: Subject, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """Run the inner subject.

        Raises:
            ProviderError: see `Subject`.
        """
        self._recorder.begin(task)
        done = await self._inner.work(task, ask, note)
        self._recorder.end(task)
        return done

    def so_far(self, reason: str) -> Done:
        """Summarise the inner subject's work."""
        return self._inner.so_far(reason)


def with_texts(answer: Answer, change: Callable[[str], str]) -> Answer:
    """Apply *change* to the answer's texts. Ids of calls and continuation data stay unchanged."""
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
