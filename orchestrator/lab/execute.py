"""One attempt at one run of a lab: decide, hold the decision against what is expected, and what it all comes to.

The counterpart of `orchestrator/suite/execute.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import attrs

from orchestrator.engine.control.control import Control
from orchestrator.engine.ending import Finding, concluded, detail_of, source_of
from orchestrator.engine.gate.gate import Gate, GateOfRun
from orchestrator.engine.gate.stopwatch import Stopwatch
from orchestrator.engine.kind import Room
from orchestrator.engine.ports import AttemptLog
from orchestrator.engine.resumption import AGAIN
from orchestrator.lab.cells import Cell
from orchestrator.lab.model import Fixture
from providers.base import Answer, Ask, Origin, Request
from providers.decisions.decision import INFRASTRUCTURAL, Decision
from providers.decisions.flow import decide
from providers.decisions.shown import shortened
from providers.recording.divergence import NotRecorded
from providers.usage import Usage
from store.documents.encoding import encode
from store.events import Json, WorkEnded
from store.rows import Claim, Ending, Judgement
from verifiers.assertion import Assertion

RECORDED = "recorded"
"""The name by which everybody is asked offline."""

Ended = Callable[[Cell, Ending], None]

LARGEST = 64 * 1024
"""Characters of a decision, written as JSON, that are stored. Assertions are over all of it."""


@attrs.define(kw_only=True)
class Attempt:
    """What is known of an attempt while it runs."""

    claim: Claim
    cell: Cell
    log: AttemptLog
    watch: Stopwatch
    way: GateOfRun
    started_at: int | None = None
    decision: Decision | None = None
    model: str | None = None
    """That answered last."""
    reported: list[Usage | None] = attrs.field(factory=list[Usage | None])
    """By every answer that a model gave."""


class Decider:
    """Executes claimed runs of a lab.

    Args:
        suite_id: the lab's id.
        cells: those of the plan, by case and variant.
        room: what this process has for it; its gates are named as capabilities name whom they ask, or there is the one
            gate `recorded` for all.
        measured: whether times and costs mean something: not when answers are played.
        ended: told of each ending before it is handed to the ledger.
    """

    def __init__(
        self,
        *,
        suite_id: str,
        cells: Mapping[tuple[str, str], Cell],
        room: Room,
        measured: bool,
        ended: Ended = lambda _cell, _ending: None,
    ) -> None:
        self._suite_id = suite_id
        self._cells = cells
        self._gates: Mapping[str, Gate] = room.gates
        self._first = next(iter(room.gates.values()))
        self._ledger = room.ledger
        self._control: Control = room.control
        self._wall: Callable[[], int] = room.world.wall
        self._measured = measured
        self._ended = ended
        self._assertions: dict[str, tuple[Assertion, ...]] = {}
        """Compiled once for each case."""

    async def __call__(self, claim: Claim) -> None:
        """Try the run once and record how that ended, also when it is cancelled."""
        log, watch = self._ledger.log(claim), Stopwatch(None)
        attempt = Attempt(
            claim=claim,
            cell=self._cells[claim.case_id, claim.variant],
            log=log,
            watch=watch,
            way=GateOfRun(self._first, claim, log, watch),
        )
        await concluded(
            lambda: self._try(attempt), attempt.way.bound, self._control, lambda finding: self._finish(attempt, finding)
        )

    def _finish(self, attempt: Attempt, finding: Finding) -> None:
        ending = self._ending(attempt, finding)
        self._ended(attempt.cell, ending)
        self._ledger.finish(ending)

    async def _try(self, attempt: Attempt) -> Finding:
        cell, claim, watch = attempt.cell, attempt.claim, attempt.watch
        if cell.skip is not None:
            return Finding(outcome="skipped", reason=cell.skip.reason, message=cell.skip.message)
        loop = asyncio.get_running_loop()
        attempt.started_at = self._wall()
        try:
            with watch.running():
                decision = await decide(
                    cell.capability,
                    cell.fixture.input,
                    ask_of=lambda name: self._ask(attempt, name),
                    origin=Origin(
                        suite_id=self._suite_id,
                        case_id=claim.case_id,
                        repetition=claim.repetition,
                        variant=claim.variant,
                    ),
                    # a node's time is its work, not its wait for room
                    clock=(lambda: loop.time() - watch.waited_s) if self._measured else None,
                )
        except NotRecorded as error:
            return _unanswered(cell, error)
        attempt.decision = decision
        attempt.log.note(WorkEnded(stop=decision.status, reason=_why(decision), text=""))
        verdicts = self._judge(cell.fixture, decision)
        return self._finding(decision, verdicts)

    def _ask(self, attempt: Attempt, name: str) -> Ask:
        """The way to whom a node asks, which remembers what was reported.

        What is played comes past the gate: nobody is called, and a recorded refusal says nothing about an account.
        """
        if self._measured:
            way: Ask = attempt.way.through(self._gates[name])
        else:
            player = self._gates[RECORDED].provider

            async def way(request: Request) -> Answer:
                return await player.answer(request, lambda _item: None)

        async def ask(request: Request) -> Answer:
            answer = await way(request)
            attempt.model = answer.model or attempt.model
            if request.model:
                attempt.reported.append(answer.usage)
            return answer

        return ask

    def _judge(self, fixture: Fixture, decision: Decision) -> tuple[Judgement, ...]:
        values = decision.to_json()
        return tuple(assertion.judged(values) for assertion in self._assertions_of(fixture))

    def _assertions_of(self, fixture: Fixture) -> tuple[Assertion, ...]:
        if fixture.case_id not in self._assertions:
            self._assertions[fixture.case_id] = tuple(
                Assertion(id=f"expect[{number}]", cel=one.cel, why=one.why) for number, one in enumerate(fixture.expect)
            )
        return self._assertions[fixture.case_id]

    def _finding(self, decision: Decision, verdicts: tuple[Judgement, ...]) -> Finding:
        """The assertions alone say pass or fail; only where nobody could be asked, and one failed, it is an error."""
        if all(verdict.verdict == "pass" for verdict in verdicts):
            return Finding(outcome="pass", composite=1.0, verdicts=verdicts)
        error = decision.error
        if self._measured and error is not None and error.cause in INFRASTRUCTURAL:
            return Finding(outcome="error", reason=error.cause, message=error.message, composite=0.0, verdicts=verdicts)
        return Finding(outcome="fail", composite=0.0, verdicts=verdicts)

    def _ending(self, attempt: Attempt, finding: Finding) -> Ending:
        tally, watch, decision = attempt.way.tally, attempt.watch, attempt.decision
        detail = detail_of(finding, tally, tally.incidents)
        judged = decision is not None and bool(finding.verdicts)
        if decision is not None:
            detail["decision"] = _told(decision)
        measured = self._measured and attempt.started_at is not None
        # what is only known to be at most so much is no cost
        known = measured and not tally.unpriced and not tally.sources["bound"]
        # whoever asked nobody took no tokens, which is known
        usage = _total(attempt.reported) if tally.calls or not measured else Usage(input=0, output=0)
        return Ending(
            claim=attempt.claim,
            outcome=finding.outcome,
            reason=finding.reason,
            judged=judged,
            again=not judged and finding.reason in AGAIN and finding.outcome in ("error", "skipped"),
            composite=finding.composite,
            started_at=attempt.started_at,
            ended_at=self._wall(),
            wall_ms=round(watch.worked_s * 1000) if measured else None,
            waited_ms=round(watch.waited_s * 1000) if measured else None,
            calls=tally.calls,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cached,
            cache_write_tokens=usage.cache_write,
            reasoning_tokens=usage.reasoning,
            cost_nusd=tally.nusd if known else None,
            cost_source=source_of(tally) if known else None,
            model_resolved=attempt.model,
            decision_status=decision.status if decision is not None else None,
            detail=detail,
            verdicts=finding.verdicts,
        )


def _unanswered(cell: Cell, error: NotRecorded) -> Finding:
    """A node was asked that nothing answers."""
    skip = cell.unanswered
    if skip is None:
        return Finding(outcome="skipped", reason="no_cassette", message=str(error))
    return Finding(outcome="skipped", reason=skip.reason, message=f"{error.why}: {skip.message}")


def _told(decision: Decision) -> dict[str, Json]:
    """The decision as it is stored: one that is very large says what matters in little room."""
    told = {**decision.to_json(), "confidence": decision.confidence}
    size = len(encode(decision.decision))
    return told if size <= LARGEST else {**told, "decision": shortened(decision.decision), "decisionCutFrom": size}


def _why(decision: Decision) -> str | None:
    return decision.abstain if decision.error is None else decision.error.message


def _total(reported: Iterable[Usage | None]) -> Usage:
    """The sums over all answers; a field is None unless every answer reported it."""
    usages = [usage or Usage() for usage in reported]
    names = [field.name for field in attrs.fields(Usage)]
    counts = {name: [getattr(usage, name) for usage in usages] for name in names}
    return Usage(**{name: sum(found) if found and None not in found else None for name, found in counts.items()})
