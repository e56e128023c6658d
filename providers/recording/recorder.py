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
from providers.recording.material import compute_fingerprint
from providers.recording.normalization import Normalizer, NormalizeRule, RunPlaces, map_texts
from providers.wrapper import ProviderWrapper


@attrs.define(kw_only=True)
class RunRecording:
    """The recording of one run."""

    task: str
    places: RunPlaces
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

    def __init__(self, inner: Provider, rules: Callable[[str], Sequence[NormalizeRule]]) -> None:
        super().__init__(inner)
        self._rules = rules
        self.recordings: dict[str, RunRecording] = {}
        """Recordings by the run's marker, SWEEP/POSITION/ATTEMPT."""

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask the inner provider and record its reply.

        Raises:
            ProviderError: the inner provider's error, which is recorded too.
        """
        events: list[Responded | TextDelta | ReasoningDelta] = []

        def note_event(item: Emitted) -> None:
            if not isinstance(item, Body):
                events.append(item)
            emit(item)

        try:
            answer = await self._inner.answer(request, note_event)
        except ProviderError as error:
            self._record_call(request, events, error)
            raise
        self._record_call(request, events, answer)
        return answer

    def wrap_subjects(self, make: Callable[[], Subject]) -> Callable[[], Subject]:
        """Wrap a factory of subjects so that their runs are recorded."""
        return lambda: _RecordedSubject(make(), self)

    def begin_run(self, task: Assignment) -> None:
        """Start the recording of a run."""
        places, case = RunPlaces.from_assignment(task), task.origin.case_id
        self.recordings[task.marker] = RunRecording(
            task=case, places=places, normalizer=Normalizer(places, self._rules(case))
        )

    def end_run(self, task: Assignment) -> None:
        """Mark the recording of a run as complete."""
        self.recordings[task.marker].whole = True

    def _record_call(
        self,
        request: Request,
        events: Sequence[Responded | TextDelta | ReasoningDelta],
        reply: Answer | ProviderError,
    ) -> None:
        tape = self.recordings.get(request.key.rpartition("/")[0])
        if tape is None:
            return  # not a call of a run (a judge's, for instance), so a replay does not repeat it
        asked = tape.normalizer.build_material(request)
        hide = tape.places.hide_places
        call = RecordedCall(
            request=asked,
            fingerprint=compute_fingerprint(asked),
            events=tuple(
                event if isinstance(event, Responded) else attrs.evolve(event, text=hide(event.text))
                for event in events
            ),
            reply=reply if isinstance(reply, ProviderError) else map_answer_texts(reply, hide),
        )
        if tape.last == request.key:
            tape.calls[-1] = call
        else:
            tape.calls.append(call)
        tape.last = request.key


class _RecordedSubject:
    """A subject that reports the start and end of its run to a recorder."""

    def __init__(self, inner: Subject, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """Run the inner subject.

        Raises:
            ProviderError: see `Subject`.
        """
        self._recorder.begin_run(task)
        done = await self._inner.work(task, ask, note)
        self._recorder.end_run(task)
        return done

    def so_far(self, reason: str) -> Done:
        """Summarise the inner subject's work."""
        return self._inner.so_far(reason)


def map_answer_texts(answer: Answer, change: Callable[[str], str]) -> Answer:
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
                arguments=None if call.arguments is None else map_texts(dict(call.arguments), change),
            )
            for call in answer.calls
        ),
    )
