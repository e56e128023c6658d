"""Replay: a provider that answers from cassettes without a connection, and fails a run whose requests differ.

Each run has a player of its own, so that concurrent runs replay exactly like sequential ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import anyio.lowlevel
import attrs

from providers.base import Answer, Ask, Assignment, Done, Emit, Note, Request, Responded, Subject
from providers.errors import ProviderError
from providers.recording.cassette import Cassette
from providers.recording.divergence import build_count_error, build_difference_error
from providers.recording.material import compute_fingerprint, find_first_difference
from providers.recording.normalization import Normalizer, NormalizeRule, RunPlaces
from providers.recording.recorder import map_answer_texts
from store.events import Json

REPLAY_NAME = "replay"

FindCassette = Callable[[str, int], Cassette]
"""Finds the recording for a task's id and a repetition.

Raises:
    NotRecorded: there is no recording.
"""


class Replay:
    """Answers from recordings; implements `providers.base.Provider`.

    Args:
        find: finds a recording.
        rules: returns the current `replayNormalize` rules for a task's id.
    """

    name = REPLAY_NAME
    account = REPLAY_NAME

    def __init__(self, find: FindCassette, rules: Callable[[str], Sequence[NormalizeRule]]) -> None:
        self._find = find
        self._rules = rules
        self._players: dict[str, _RunPlayer] = {}

    def size(self, request: Request) -> int:  # noqa: ARG002 - the port's
        """Zero, as nothing is sent."""
        return 0

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Return the recorded reply for this call of the run.

        Raises:
            ReplayDiverged: the request differs from the recorded one, or no further call was recorded.
            ProviderError: the recorded error.
        """
        await anyio.lowlevel.checkpoint()
        return self._players[request.key.rpartition("/")[0]].play_answer(request, emit)

    async def aclose(self) -> None:
        """Do nothing, as there is nothing to release."""

    def wrap_subjects(self, make: Callable[[], Subject]) -> Callable[[], Subject]:
        """Wrap a factory of subjects so that their runs are replayed."""
        return lambda: _ReplayedSubject(make(), self)

    def begin_run(self, task: Assignment) -> Assignment:
        """Start the replay of a run; returns its assignment with the recorded model, since no other can answer.

        Raises:
            NotRecorded: the run has no recording.
        """
        case = task.origin.case_id
        cassette = self._find(case, task.origin.repetition)
        self._players[task.marker] = _RunPlayer(cassette, RunPlaces.from_assignment(task), self._rules(case))
        return attrs.evolve(task, model=cassette.header.model)

    def end_run(self, task: Assignment) -> None:
        """End the replay of a run.

        Raises:
            ReplayDiverged: the recording has more calls.
        """
        self._players.pop(task.marker).check_all_played()


class _ReplayedSubject:
    """A subject that reports the start and end of its run to a replay."""

    def __init__(self, inner: Subject, replay: Replay) -> None:
        self._inner = inner
        self._replay = replay

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """Run the inner subject with the recorded model.

        Raises:
            NotRecorded: the run has no recording.
            ReplayDiverged: the requests differ from the recording, or it has more calls.
            ProviderError: see `Subject`.
        """
        task = self._replay.begin_run(task)
        done = await self._inner.work(task, ask, note)
        self._replay.end_run(task)
        return done

    def so_far(self, reason: str) -> Done:
        """Summarise the inner subject's work."""
        return self._inner.so_far(reason)


class _RunPlayer:
    """The replay of one run: its recording and the number of calls played."""

    def __init__(self, cassette: Cassette, places: RunPlaces, rules: Sequence[NormalizeRule]) -> None:
        self._cassette = cassette
        self._places = places
        self._normalizer = Normalizer(places, rules)
        # Rules that were added after the recording are applied to it as well. Rules of the recording were applied when
        # it was made, and applying them twice could give another result.
        same = tuple(rules) == cassette.header.rules
        self._again = None if same else Normalizer(RunPlaces(()), rules)
        self._played = 0

    def play_answer(self, request: Request, emit: Emit) -> Answer:
        """Return the next recorded reply, or raise it if it is an error."""
        calls, task = self._cassette.calls, self._cassette.header.task_id
        if self._played >= len(calls):
            raise build_count_error(task, recorded=len(calls), made=self._played + 1)
        call = calls[self._played]
        asked = self._normalizer.build_material(request)
        recorded: Mapping[str, Json] = call.request
        if compute_fingerprint(asked) != call.fingerprint:
            if self._again is not None:
                recorded = {
                    **recorded,
                    "instructions": self._again.normalize_value(recorded["instructions"]),
                    "messages": self._again.normalize_value(recorded["messages"]),
                }
            difference = find_first_difference(recorded, asked)
            if difference is not None:
                raise build_difference_error(task, self._played + 1, difference)
        self._played += 1
        show = self._places.restore_places
        for event in call.events:
            emit(event if isinstance(event, Responded) else attrs.evolve(event, text=show(event.text)))
        if isinstance(call.reply, ProviderError):
            # a copy, since a caller may change an error that it catches
            raise attrs.evolve(call.reply)
        return map_answer_texts(call.reply, show)

    def check_all_played(self) -> None:
        """End the replay; raise if recorded calls are left."""
        calls = self._cassette.calls
        if self._played < len(calls):
            raise build_count_error(self._cassette.header.task_id, recorded=len(calls), made=self._played)
