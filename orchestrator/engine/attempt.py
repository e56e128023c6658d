"""One attempt at a run of any kind: its record while it runs, the tally of its requests, and its ending.

An executor opens it (`RunContext.open_attempt`), sends requests through `GateOfRun`, and builds the ending from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio
import attrs

from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Waits
from orchestrator.engine.descriptors import describe_exhaustion
from orchestrator.engine.ending import AttemptResult, result_of_cancel, result_of_error
from orchestrator.engine.gate.requests import AttemptRequests
from orchestrator.engine.gate.stopwatch import Stopwatch
from orchestrator.engine.ports import Ledger
from orchestrator.engine.resumption import RESUMED_REASONS
from providers.usage import Usage
from store.errors import CapExhausted, EvalctlError, StoreFailed
from store.events import Event, Incident, Json
from store.measurements import Measurements
from store.rows import Claim, DecisionStatus, Ending


@attrs.define(kw_only=True)
class Attempt:
    """One attempt while it runs."""

    claim: Claim
    requests: AttemptRequests
    ledger: Ledger
    control: Control
    waits: Waits
    wall: Callable[[], int]
    """Microseconds since 1970 UTC."""
    started_at: int | None = None
    """Microseconds since 1970 UTC; None until the work begins."""
    incidents: Counter[str] = attrs.field(factory=Counter[str])
    """Incidents of the work by name; each has an event of its own."""

    @property
    def key(self) -> str:
        """SWEEP/POSITION/ATTEMPT; it also marks the attempt's processes."""
        return self.requests.key

    @property
    def watch(self) -> Stopwatch:
        """The stopwatch that measures work and waiting."""
        return self.requests.watch

    @contextmanager
    def work_time(self) -> Iterator[None]:
        """Note the start, and run the stopwatch around the work; it cancels the work at the wall budget."""
        self.started_at = self.wall()
        with self.watch.run_watch():
            yield

    def record_event(self, event: Event) -> None:
        """Record an event of the work, and count it if it is an incident.

        Raises:
            StoreFailed: the record can no longer be kept.
        """
        if isinstance(event, Incident):
            self.incidents[event.name] += 1
        self.waits.progressed = True
        self.requests.log.append_event(event)

    async def run_and_record(
        self, work: Callable[[], Awaitable[AttemptResult]], build: Callable[[AttemptResult], Ending]
    ) -> None:
        """Do the work once and record its ending, also when the work waits too long or is cancelled.

        Args:
            work: does the work and returns its result.
            build: builds the ending to record from a result.

        Raises:
            StoreFailed: the record can no longer be kept; no ending is recorded.
        """
        try:
            result = await self._work_until_stalled(work)
        except StoreFailed:
            raise
        except anyio.get_cancelled_exc_class():
            self.ledger.finish_attempt(build(result_of_cancel(self.control)))
            raise
        except EvalctlError as error:
            result = result_of_error(error)
            if isinstance(error, CapExhausted):
                self.control.start_draining("budget", str(error))
        except (OSError, ExceptionGroup) as error:
            message = describe_exhaustion(error)
            if message is None:
                raise
            result = AttemptResult(outcome="error", reason="harness", message=message)
        self.ledger.finish_attempt(build(result))

    def take_measurements(
        self,
        usage: Usage,
        *,
        cost_known: bool,
        timed: bool = True,
        turns: int | None = None,
        tool_calls: int | None = None,
    ) -> Measurements:
        """Collect the attempt's figures for its ending.

        Args:
            usage: tokens of the work, as far as they were reported.
            cost_known: whether the tally of the work is its cost.
            timed: whether times mean something; they do not when answers are replayed.
            turns: number of the work's turns; None if it has none.
            tool_calls: number of the work's tool calls; None if it has none.
        """
        tally, timed = self.requests.work, timed and self.started_at is not None
        return Measurements(
            wall_ms=round(self.watch.worked_s * 1000) if timed else None,
            waited_ms=round(self.watch.waited_s * 1000) if timed else None,
            turns=turns,
            tool_calls=tool_calls,
            calls=tally.calls,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cached,
            cache_write_tokens=usage.cache_write,
            reasoning_tokens=usage.reasoning,
            cost_nusd=tally.nusd if cost_known else None,
            cost_source=tally.source if cost_known else None,
            model_resolved=self.requests.model,
        )

    def build_ending(
        self,
        result: AttemptResult,
        *,
        judged: bool,
        measured: Measurements,
        detail: Mapping[str, Json],
        decision_status: DecisionStatus | None = None,
    ) -> Ending:
        """Build the ending to record. *detail* follows the fields that every kind stores there."""
        common: dict[str, Json] = {"spent": self.requests.whole.to_json()}
        if incidents := self.incidents + self.requests.incidents:
            common["incidents"] = dict(sorted(incidents.items()))
        if result.message is not None:
            common["message"] = result.message
        if result.divergence is not None:
            common["divergence"] = result.divergence.to_json()
        return Ending(
            claim=self.claim,
            outcome=result.outcome,
            reason=result.reason,
            judged=judged,
            again=not judged and result.reason in RESUMED_REASONS and result.outcome in ("error", "skipped"),
            composite=result.composite,
            started_at=self.started_at,
            ended_at=self.wall(),
            measured=measured,
            decision_status=decision_status,
            detail={**common, **detail},
            verdicts=result.verdicts,
            changes=result.changes,
        )

    async def _work_until_stalled(self, work: Callable[[], Awaitable[AttemptResult]]) -> AttemptResult:
        with self.requests.stall_scope.scope:
            return await work()
        assert self.requests.stall_scope.error is not None
        raise self.requests.stall_scope.error
