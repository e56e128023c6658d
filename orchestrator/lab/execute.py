"""The executor of a lab: runs the decision flow of one attempt, judges the decision and records the result.

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
"""The name of the one provider and gate of an offline sweep."""

OnEnding = Callable[[Cell, Ending], None]

MAX_DECISION_CHARS = 64 * 1024
"""Characters of a decision's JSON that are stored. Assertions see the whole decision."""


@attrs.define(kw_only=True)
class DecisionWork:
    """The decision of a cell in one attempt."""

    attempt: Attempt
    cell: Cell
    decision: Decision | None = None
    """None until the flow has ended."""
    used: UsageSum = attrs.field(factory=UsageSum)
    """Token counts of the answers of models."""


@attrs.frozen(kw_only=True)
class Decider:
    """Executes claimed runs of a lab."""

    suite_id: str
    """The lab's id."""
    cells: Mapping[tuple[str, str], Cell]
    """The cells of the sweep plan, by case id and variant."""
    context: RunContext
    """Its gates have the names of `Capability.find_provider_name`; offline there is only the gate `recorded`."""
    measured: bool
    """Whether times and costs are measured; False if a player answers."""
    on_ending: OnEnding = lambda _cell, _ending: None
    """Called with each ending before it is stored."""
    assertions: dict[str, tuple[Assertion, ...]] = attrs.field(factory=dict[str, tuple[Assertion, ...]])
    """Compiled assertions by case id, filled on first use."""

    async def __call__(self, claim: Claim) -> None:
        """Execute one attempt at the run and record its ending, also after a cancellation."""
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
                    # a node's time excludes its waits at the gate
                    clock=(lambda: loop.time() - watch.waited_s) if self.measured else None,
                )
        except NotRecorded as error:
            return _skip_unanswered(cell, error)
        work.decision = decision
        reason = decision.abstain if decision.error is None else decision.error.message
        attempt.record_event(WorkEnded(stop=decision.status, reason=reason, text=""))
        return self._judge_decision(cell.case, decision)

    def _make_ask(self, work: DecisionWork, name: str) -> Ask:
        """Make the function that calls the provider *name* and notes the models and tokens of its answers.

        A player bypasses the gate: it makes no call, and a recorded refusal says nothing about an account.
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

    def _judge_decision(self, case: LabCase, decision: Decision) -> AttemptResult:
        """Judge the decision by the assertions: pass if all hold, else fail.

        A failed assertion after an infrastructure failure in a live run is an error instead.
        """
        if case.case_id not in self.assertions:
            self.assertions[case.case_id] = tuple(
                Assertion(id=f"expect[{number}]", cel=expectation.cel, why=expectation.why)
                for number, expectation in enumerate(case.expect)
            )
        values = decision.to_json()
        verdicts = tuple(assertion.judge_decision(values) for assertion in self.assertions[case.case_id])
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
        # a flow without calls is known to use no tokens
        used = work.used.usage or Usage() if tally.calls or not timed else Usage(input=0, output=0)
        ending = attempt.build_ending(
            result,
            judged=decision is not None and bool(result.verdicts),
            # an upper bound is not a cost
            measured=attempt.take_measurements(
                used, timed=timed, cost_known=timed and not tally.unpriced and not tally.sources["bound"]
            ),
            decision_status=decision.status if decision is not None else None,
            detail={"decision": _shorten_decision(decision)} if decision is not None else {},
        )
        self.on_ending(work.cell, ending)
        return ending


def _skip_unanswered(cell: Cell, error: NotRecorded) -> AttemptResult:
    """Return the result of a run whose node has no recorded answer."""
    skip = cell.unanswered
    if skip is None:
        return AttemptResult(outcome="skipped", reason="no_cassette", message=str(error))
    return AttemptResult(outcome="skipped", reason=skip.reason, message=f"{error.why}: {skip.message}")


def _shorten_decision(decision: Decision) -> dict[str, Json]:
    """Return the decision as stored; a decision of more than `MAX_DECISION_CHARS` is shortened."""
    document = {**decision.to_json(), "confidence": decision.confidence}
    size = len(encode_json(decision.decision))
    if size <= MAX_DECISION_CHARS:
        return document
    return {**document, "decision": shorten_value(decision.decision), "decisionCutFrom": size}
