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
from providers.recording.divergence import differs, miscounted
from providers.recording.material import fingerprint, first_difference
from providers.recording.normalization import Normalizer, Places, Rule
from providers.recording.recorder import with_texts
from store.events import Json

NAME = "replay"

Find = Callable[[str, int], Cassette]
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

    name = NAME
    account = NAME

    def __init__(self, find: Find, rules: Callable[[str], Sequence[Rule]]) -> None:
        self._find = find
        self._rules = rules
        self._players: dict[str, _Player] = {}

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
        return self._players[request.key.rpartition("/")[0]].answer(request, emit)

    async def aclose(self) -> None:
        """Do nothing, as there is nothing to release."""

    def attended(self, make: Callable[[], Subject]) -> Callable[[], Subject]:
        """Wrap a factory of subjects so that their runs are replayed."""
        return lambda: _Attended(make(), self)

    def begin(self, task: Assignment) -> Assignment:
        """Start the replay of a run; returns its assignment with the recorded model, since no other can answer.

        Raises:
            NotRecorded: the run has no recording.
        """
        case = task.origin.case_id
        cassette = self._find(case, task.origin.repetition)
        self._players[task.marker] = _Player(cassette, Places.of(task), self._rules(case))
        return attrs.evolve(task, model=cassette.header.model)

    def end(self, task: Assignment) -> None:
        """End the replay of a run.

        Raises:
            ReplayDiverged: the recording has more calls.
        """
        self._players.pop(task.marker).end()


class _Attended:
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
        task = self._replay.begin(task)
        done = await self._inner.work(task, ask, note)
        self._replay.end(task)
        return done

    def so_far(self, reason: str) -> Done:
        """Summarise the inner subject's work."""
        return self._inner.so_far(reason)


class _Player:
    """The replay of one run: its recording and the number of calls played."""

    def __init__(self, cassette: Cassette, places: Places, rules: Sequence[Rule]) -> None:
        self._cassette = cassette
        self._places = places
        self._normalizer = Normalizer(places, rules)
        # Rules that were added after the recording are applied to it as well. Rules of the recording were applied when
        # it was made, and applying them twice could give another result.
        same = tuple(rules) == cassette.header.rules
        self._again = None if same else Normalizer(Places(()), rules)
        self._played = 0

    def answer(self, request: Request, emit: Emit) -> Answer:
        """Return the next recorded reply, or raise it if it is an error."""
        calls, task = self._cassette.calls, self._cassette.header.task_id
        if self._played >= len(calls):
            raise miscounted(task, recorded=len(calls), made=self._played + 1)
        call = calls[self._played]
        asked = self._normalizer.material(request)
        recorded: Mapping[str, Json] = call.request
        if fingerprint(asked) != call.fingerprint:
            if self._again is not None:
                recorded = {
                    **recorded,
                    "instructions": self._again.text_of(recorded["instructions"]),
                    "messages": self._again.text_of(recorded["messages"]),
                }
            difference = first_difference(recorded, asked)
            if difference is not None:
                raise differs(task, self._played + 1, difference)
        self._played += 1
        show = self._places.show
        for event in call.events:
            emit(event if isinstance(event, Responded) else attrs.evolve(event, text=show(event.text)))
        if isinstance(call.reply, ProviderError):
            # a copy, since a caller may change an error that it catches
            raise attrs.evolve(call.reply)
        return with_texts(call.reply, show)

    def end(self) -> None:
        """End the replay; raise if recorded calls are left."""
        calls = self._cassette.calls
        if self._played < len(calls):
            raise miscounted(self._cassette.header.task_id, recorded=len(calls), made=self._played)
