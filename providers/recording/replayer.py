"""Plays recordings in a provider's place: opens no connection, and ends a run that asks for something else.

Each run has a player of its own, so that any number of runs replay side by side as they would one after the other.
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
"""The recording for a task's id and a repetition.

Raises:
    NotRecorded: there is none.
"""


class Replay:
    """Answers from recordings; implements `providers.base.Provider`.

    Args:
        find: where the recordings are.
        rules: the `replayNormalize` of each task as it is now, by its id.
    """

    name = NAME
    account = NAME

    def __init__(self, find: Find, rules: Callable[[str], Sequence[Rule]]) -> None:
        self._find = find
        self._rules = rules
        self._players: dict[str, _Player] = {}

    def size(self, request: Request) -> int:  # noqa: ARG002 - the port's
        """Nothing goes over a wire."""
        return 0

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """What was recorded for this call of the run.

        Raises:
            ReplayDiverged: it is not this request that was recorded, or none was.
            ProviderError: the recorded one.
        """
        await anyio.lowlevel.checkpoint()
        return self._players[request.key.rpartition("/")[0]].answer(request, emit)

    async def aclose(self) -> None:
        """Nothing to release."""

    def attended(self, make: Callable[[], Subject]) -> Callable[[], Subject]:
        """Subjects as *make* makes them, whose runs are replayed."""
        return lambda: _Attended(make(), self)

    def begin(self, task: Assignment) -> Assignment:
        """A run begins: it is to ask for the model that was recorded, since no other can answer.

        Raises:
            NotRecorded: there is no recording of it.
        """
        case = task.origin.case_id
        cassette = self._find(case, task.origin.repetition)
        self._players[task.marker] = _Player(cassette, Places.of(task), self._rules(case))
        return attrs.evolve(task, model=cassette.header.model)

    def end(self, task: Assignment) -> None:
        """A run's work has come to its end.

        Raises:
            ReplayDiverged: more had been recorded.
        """
        self._players.pop(task.marker).end()


class _Attended:
    """A subject whose run is played to."""

    def __init__(self, inner: Subject, replay: Replay) -> None:
        self._inner = inner
        self._replay = replay

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """As the inner one, with the recorded model.

        Raises:
            NotRecorded: there is no recording.
            ReplayDiverged: calls were left over.
            ProviderError: see `Subject`.
        """
        task = self._replay.begin(task)
        done = await self._inner.work(task, ask, note)
        self._replay.end(task)
        return done

    def so_far(self, reason: str) -> Done:
        """As the inner one."""
        return self._inner.so_far(reason)


class _Player:
    """One run's recording, and how far it has been played."""

    def __init__(self, cassette: Cassette, places: Places, rules: Sequence[Rule]) -> None:
        self._cassette = cassette
        self._places = places
        self._normalizer = Normalizer(places, rules)
        # A rule that was added after the recording is applied to it, too. One that was there has been: applied twice,
        # it might not give the same again.
        same = tuple(rules) == cassette.header.rules
        self._again = None if same else Normalizer(Places(()), rules)
        self._played = 0

    def answer(self, request: Request, emit: Emit) -> Answer:
        """The next recorded reply."""
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
            # a fresh one, since whoever catches an error may write on it
            raise attrs.evolve(call.reply)
        return with_texts(call.reply, show)

    def end(self) -> None:
        """Nothing more will be asked."""
        calls = self._cassette.calls
        if self._played < len(calls):
            raise miscounted(self._cassette.header.task_id, recorded=len(calls), made=self._played)
