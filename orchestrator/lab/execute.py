"""One attempt at one run of a lab: decide, hold the decision against what is expected, and what it all comes to.

The counterpart of `orchestrator/suite/execute.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import attrs

from orchestrator.engine.attempt import Attempt
from orchestrator.engine.ending import AttemptResult
from orchestrator.engine.gate.gate import GateOfRun
from orchestrator.engine.kind import RunContext
from orchestrator.lab.cells import Cell
from orchestrator.lab.model import LabCase
from providers.base import Answer, Ask, Origin, Request
from providers.decisions.decision import INFRASTRUCTURE_CAUSES, Decision
from providers.decisions.excerpts import shorten_value
from providers.decisions.flow import run_flow
from providers.recording.divergence import NotRecorded
from providers.usage import Usage, UsageSum
from store.documents.encoding import encode_json
from store.events import Json, WorkEnded
from store.rows import Claim, Ending
from verifiers.assertion import Assertion

RECORDED = "recorded"
"""The name by which everybody is asked offline."""

OnEnding = Callable[[Cell, Ending], None]

MAX_DECISION_CHARS = 64 * 1024
"""Characters of a decision, written as JSON, that are stored. Assertions are over all of it."""


@attrs.define(kw_only=True)
class DecisionWork:
    """The decision of a cell in one attempt."""

    attempt: Attempt
    cell: Cell
    decision: Decision | None = None
    """None until the flow has ended."""
    used: UsageSum = attrs.field(factory=UsageSum)
    """Of every answer that a model gave."""


@attrs.frozen(kw_only=True)
class Decider:
    """Executes claimed runs of a lab."""

    suite_id: str
    """The lab's id."""
    cells: Mapping[tuple[str, str], Cell]
    """Those of the plan, by case and variant."""
    context: RunContext
    """Its gates have the names of `Capability.find_provider_name`, or there is the one gate `recorded` for all."""
    measured: bool
    """Whether times and costs mean something: not when answers are played."""
    on_ending: OnEnding = lambda _cell, _ending: None
    """Called with each ending before the ledger has it."""
    assertions: dict[str, tuple[Assertion, ...]] = attrs.field(factory=dict[str, tuple[Assertion, ...]])
    """Compiled once for each case."""

    async def __call__(self, claim: Claim) -> None:
        """Try the run once and record how that ended, also when it is cancelled."""
        attempt = self.context.open_attempt(claim)
        work = DecisionWork(attempt=attempt, cell=self.cells[claim.case_id, claim.variant])
        await attempt.run_and_record(lambda: self._try_cell(work), lambda result: self._build_ending(work, result))

    async def _try_cell(self, work: DecisionWork) -> AttemptResult:
        cell, attempt = work.cell, work.attempt
        claim, watch = attempt.claim, attempt.watch
        if cell.skip is not None:
            return AttemptResult(outcome="skipped", reason=cell.skip.reason, message=cell.skip.message)
        loop = asyncio.get_running_loop()
        try:
            with attempt.work_time():
                decision = await run_flow(
                    cell.capability,
                    cell.case.input,
                    ask_of=lambda name: self._make_ask(work, name),
                    origin=Origin(
                        suite_id=self.suite_id,
                        case_id=claim.case_id,
                        repetition=claim.repetition,
                        variant=claim.variant,
                    ),
                    # a node's time is its work, not its wait for room
                    clock=(lambda: loop.time() - watch.waited_s) if self.measured else None,
                )
        except NotRecorded as error:
            return _skip_unanswered(cell, error)
        work.decision = decision
        reason = decision.abstain if decision.error is None else decision.error.message
        attempt.record_event(WorkEnded(stop=decision.status, reason=reason, text=""))
        return self._judge_decision(cell.case, decision)

    def _make_ask(self, work: DecisionWork, name: str) -> Ask:
        """The way to the provider *name*, which keeps what answers report.

        What is played comes past the gate: nobody is called, and a recorded refusal says nothing about an account.
        """
        if self.measured:
            ask_player: Ask = GateOfRun(self.context.gates[name], work.attempt.requests)
        else:
            player = self.context.gates[RECORDED].provider

            async def ask_player(request: Request) -> Answer:
                return await player.answer(request, lambda _item: None)

        async def ask_and_note(request: Request) -> Answer:
            answer = await ask_player(request)
            work.attempt.requests.note_model(request.purpose, answer.model)
            if request.model:
                work.used.add(answer.usage)
            return answer

        return ask_and_note

    def _judge_decision(self, fixture: LabCase, decision: Decision) -> AttemptResult:
        """The assertions alone say pass or fail; only where nobody could be asked, and one failed, it is an error."""
        if fixture.case_id not in self.assertions:
            self.assertions[fixture.case_id] = tuple(
                Assertion(id=f"expect[{number}]", cel=one.cel, why=one.why) for number, one in enumerate(fixture.expect)
            )
        values = decision.to_json()
        verdicts = tuple(assertion.judge_decision(values) for assertion in self.assertions[fixture.case_id])
        if all(verdict.verdict == "pass" for verdict in verdicts):
            return AttemptResult(outcome="pass", composite=1.0, verdicts=verdicts)
        error = decision.error
        if self.measured and error is not None and error.cause in INFRASTRUCTURE_CAUSES:
            return AttemptResult(
                outcome="error", reason=error.cause, message=error.message, composite=0.0, verdicts=verdicts
            )
        return AttemptResult(outcome="fail", composite=0.0, verdicts=verdicts)

    def _build_ending(self, work: DecisionWork, result: AttemptResult) -> Ending:
        attempt, decision, tally = work.attempt, work.decision, work.attempt.requests.work
        timed = self.measured and attempt.started_at is not None
        # a flow that called nobody took no tokens, which is known
        used = work.used.usage or Usage() if tally.calls or not timed else Usage(input=0, output=0)
        ending = attempt.build_ending(
            result,
            judged=decision is not None and bool(result.verdicts),
            # an upper bound is no cost
            measured=attempt.take_measurements(
                used, timed=timed, cost_known=timed and not tally.unpriced and not tally.sources["bound"]
            ),
            decision_status=decision.status if decision is not None else None,
            detail={"decision": _shorten_decision(decision)} if decision is not None else {},
        )
        self.on_ending(work.cell, ending)
        return ending


def _skip_unanswered(cell: Cell, error: NotRecorded) -> AttemptResult:
    """A node was asked that nothing answers."""
    skip = cell.unanswered
    if skip is None:
        return AttemptResult(outcome="skipped", reason="no_cassette", message=str(error))
    return AttemptResult(outcome="skipped", reason=skip.reason, message=f"{error.why}: {skip.message}")


def _shorten_decision(decision: Decision) -> dict[str, Json]:
    """The decision as it is stored: one that is very large says what matters in little room."""
    told = {**decision.to_json(), "confidence": decision.confidence}
    size = len(encode_json(decision.decision))
    return (
        told
        if size <= MAX_DECISION_CHARS
        else {**told, "decision": shorten_value(decision.decision), "decisionCutFrom": size}
    )
