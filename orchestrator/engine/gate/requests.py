"""Requests of one attempt over all gates: their numbers, tallies by purpose, and incidents."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import attrs

from orchestrator.engine.control.waits import StallScope
from orchestrator.engine.gate.charge import Charge
from orchestrator.engine.gate.stopwatch import Stopwatch
from orchestrator.engine.gate.tally import RequestTally, sum_tallies
from orchestrator.engine.ports import AttemptLog
from store.events import Incident, Json

WORK = frozenset({"turn", "compaction"})
"""Purposes of requests whose calls and cost are measured. Others, such as a judge's, count only against the caps."""


@attrs.define(kw_only=True)
class AttemptRequests:
    """Requests of one attempt so far."""

    key: str
    """SWEEP/POSITION/ATTEMPT, the beginning of each request's key."""
    position: int
    """Position of the run in the sweep."""
    log: AttemptLog
    watch: Stopwatch
    """The stopwatch that stands still while a request waits."""
    stall_scope: StallScope = attrs.field(factory=StallScope)
    """Ends the attempt when a request waits too long; the attempt runs inside its scope."""
    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))
    model: str | None = None
    """The model that gave the last answer to the work."""
    tallies: dict[str, RequestTally] = attrs.field(factory=lambda: defaultdict(RequestTally))
    """By purpose."""
    incidents: Counter[str] = attrs.field(factory=Counter[str])

    @property
    def work(self) -> RequestTally:
        """The tally of the work."""
        return sum_tallies(tally for purpose, tally in self.tallies.items() if purpose in WORK)

    @property
    def whole(self) -> RequestTally:
        """The tally of all purposes."""
        return sum_tallies(self.tallies.values())

    def count_request(self, purpose: str, charge: Charge) -> None:
        """Count a request that has ended, with an answer or without."""
        self.tallies[purpose].add_charge(charge)

    def note_model(self, purpose: str, model: str | None) -> None:
        """Remember the model that answered, if the request belongs to the work."""
        if purpose in WORK:
            self.model = model or self.model

    def note_incident(self, name: str, detail: Mapping[str, Json] | None = None) -> None:
        """Count an incident, and record the first of its name with its *detail*.

        Raises:
            StoreFailed: the record can no longer be kept.
        """
        self.incidents[name] += 1
        if self.incidents[name] == 1:
            self.log.append_event(Incident(name=name, detail=detail or {}))
