"""The gate: every request, whoever makes it, passes here.

Permit of the account, reservation of the upper bound, request, retry policy, settlement, events. So caps, rates, waits
and faults are right everywhere or nowhere.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import attrs

from orchestrator.governor import Governor
from orchestrator.ports import AttemptLog, Budget, Ledger
from orchestrator.retry import RetryPolicy
from orchestrator.stopwatch import Stopwatch
from providers.base import Answer, Provider, ProviderError, ReasoningDelta, Request, Responded, TextDelta, Usage
from store.events import Call, CallResponded, CallSent, Incident, Waited
from store.rows import Amount, Caps, Claim

FALLBACK_OUTPUT_TOKENS = 16_384
"""The output limit a request gets under a cap when it has none of its own."""
NOTICEABLE_WAIT_MS = 50


class Permits:
    """The governor's permits as something one can wait for."""

    def __init__(self, governor: Governor) -> None:
        self.governor = governor
        self._changed = anyio.Condition()

    def free(self) -> bool:
        """Whether a request could start now."""
        return self.governor.admits(anyio.current_time())

    async def changed(self) -> None:
        """Return when `free` may have become true."""
        async with self._changed:
            await self._wait()

    async def enter(self) -> None:
        """Wait for a permit and take it."""
        if not self.free():
            async with self._changed:
                while not self.free():
                    await self._wait()
        self.governor.started()

    async def leave(self, error: ProviderError | None = None) -> None:
        """Give the permit back and wake those who wait for one."""
        self.governor.ended(anyio.current_time(), error)
        if self._changed.statistics().lock_statistics.locked or self._changed.statistics().tasks_waiting:
            with anyio.CancelScope(shield=True):
                async with self._changed:
                    self._changed.notify_all()

    async def _wait(self) -> None:
        opens = self.governor.opens_in(anyio.current_time())
        with anyio.move_on_after(opens):
            await self._changed.wait()


@attrs.define(kw_only=True)
class Gate:
    """The way to one account, for all runs of this process."""

    sweep: str
    provider: Provider
    permits: Permits
    budget: Budget
    caps: Caps
    ledger: Ledger
    policy: RetryPolicy
    rng: random.Random
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    def bounded(self, request: Request) -> tuple[Request, Amount]:
        """The request as it is sent, and the most it can cost. Under a cap every request has an output limit."""
        if request.max_output_tokens is None and (self.caps.tokens is not None or self.caps.nusd is not None):
            request = attrs.evolve(request, max_output_tokens=FALLBACK_OUTPUT_TOKENS)
        size = self.provider.size(request)
        return request, Amount(calls=1, tokens=size + (request.max_output_tokens or 0))


@attrs.define(kw_only=True)
class Tally:
    """What one attempt has spent and met so far, retries included."""

    calls: int = 0
    tokens: int = 0
    unknown: int = 0
    """Requests whose usage was not reported; `tokens` is then a lower bound."""
    incidents: Counter[str] = attrs.field(factory=Counter[str])
    model: str | None = None


class GateOfRun:
    """One attempt's way through the gate; implements `providers.base.Ask`."""

    def __init__(self, gate: Gate, claim: Claim, log: AttemptLog, watch: Stopwatch) -> None:
        self.tally = Tally()
        self._gate = gate
        self._log = log
        self._watch = watch
        self._key = f"{gate.sweep}/{claim.position}/{claim.number}"
        self._requests = 0

    async def __call__(self, request: Request) -> Answer:
        """See `providers.base.Ask`.

        Raises:
            ProviderError: no answer within the retry policy.
            BudgetSpent: a cap of the sweep leaves no room.
            StoreFailed: the record can no longer be kept.
        """
        gate = self._gate
        self._requests += 1
        request, bound = gate.bounded(attrs.evolve(request, key=f"{self._key}/{self._requests}"))
        faults, waited_s = 0, 0.0
        while True:
            await gate.ledger.room()
            with self._waiting("permit"):
                await gate.permits.enter()
            failure: ProviderError | None = None
            try:
                with self._waiting("budget"):
                    await gate.budget.reserve(bound)
                sent = _Sent(self._log, request, self._requests, gate.provider.account)
                try:
                    answer = await sent.answered_by(gate.provider, bound.tokens - (request.max_output_tokens or 0))
                finally:
                    gate.budget.settle(bound, self._charge(bound, sent.usage))
            except ProviderError as error:
                failure = error
            else:
                sent.record(answer, None)
                self._take(answer)
                return answer
            finally:
                await gate.permits.leave(failure)
            faults += failure.kind != "rate_limit"
            delay = gate.policy.delay(failure, faults=faults, waited_s=waited_s, rng=gate.rng)
            sent.record(failure, delay)
            if delay is None:
                raise failure
            with self._waiting("retry"):
                await gate.sleep(delay)
            waited_s += delay
            request = attrs.evolve(request, tries=request.tries + 1)

    def _take(self, answer: Answer) -> None:
        self.tally.model = answer.model or self.tally.model
        for name in answer.notes:
            self._incident(name)

    def _incident(self, name: str) -> None:
        self.tally.incidents[name] += 1
        if self.tally.incidents[name] == 1:
            self._log.note(Incident(name=name))

    def _charge(self, bound: Amount, usage: Usage | None) -> Amount:
        """What the request costs the sweep: what was reported, and its bound where nothing was."""
        self.tally.calls += 1
        if usage is None or usage.input is None or usage.output is None:
            self.tally.unknown += 1
            return bound
        tokens = usage.input + usage.output
        self.tally.tokens += tokens
        if self._gate.caps.tokens is not None and tokens > bound.tokens:
            self._incident("usage_above_bound")
        return Amount(calls=1, tokens=tokens)

    @contextmanager
    def _waiting(self, why: str) -> Iterator[None]:
        """A wait that is not the run's work: its wall budget stands still, and a noticeable wait is recorded."""
        before = self._watch.waited_s
        with self._watch.waiting():
            yield
        if (waited_ms := round((self._watch.waited_s - before) * 1000)) >= NOTICEABLE_WAIT_MS:
            self._log.note(Waited(why=why, ms=waited_ms))


class _Sent:
    """One request on the wire, and the events it leaves."""

    def __init__(self, log: AttemptLog, request: Request, number: int, account: str) -> None:
        self.usage: Usage | None = None
        self._log = log
        self._request = request
        self._number = number
        self._account = account
        self._responded = Responded(status=0)
        self._started = anyio.current_time()

    async def answered_by(self, provider: Provider, size: int) -> Answer:
        request = self._request
        self._log.note(
            CallSent(
                request=self._number,
                tries=request.tries,
                account=self._account,
                model=request.model,
                bytes=size,
                max_output_tokens=request.max_output_tokens,
            )
        )
        try:
            answer = await provider.answer(request, self._emit)
        except ProviderError as error:
            self.usage = error.usage
            raise
        except BaseException:  # cancelled: what was asked may have cost something all the same
            self._note(error="cancelled")
            raise
        self.usage = answer.usage
        return answer

    def record(self, reply: Answer | ProviderError, retry_in_s: float | None) -> None:
        if isinstance(reply, ProviderError):
            self._note(
                status=reply.status,
                model=reply.model,
                error=reply.kind,
                message=reply.message,
                retry_in_ms=None if retry_in_s is None else round(retry_in_s * 1000),
            )
            return
        self._note(
            model=reply.model,
            finish=reply.finish,
            tool_calls=tuple(
                {"id": call.id, "name": call.name, "arguments": call.raw if call.arguments is None else call.arguments}
                for call in reply.calls
            ),
        )

    def _note(self, *, status: int | None = None, **facts: object) -> None:
        self._log.note(
            Call(
                request=self._number,
                tries=self._request.tries,
                account=self._account,
                status=status or self._responded.status or None,
                provider_request_id=self._responded.provider_request_id,
                wall_ms=round((anyio.current_time() - self._started) * 1000),
                usage=self.usage.reported() if self.usage is not None else None,
                **facts,  # type: ignore[arg-type]  # the callers above name fields of Call
            )
        )

    def _emit(self, item: Responded | TextDelta | ReasoningDelta) -> None:
        match item:
            case TextDelta(text):
                self._log.delta("text", self._number, text)
            case ReasoningDelta(text):
                self._log.delta("reasoning", self._number, text)
            case Responded():
                self._responded = item
                self._log.note(
                    CallResponded(
                        request=self._number,
                        tries=self._request.tries,
                        status=item.status,
                        provider_request_id=item.provider_request_id,
                    )
                )
