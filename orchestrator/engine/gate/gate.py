"""Gate: the one place that sends requests to providers, for subjects, judges and decision flows alike.

A request takes a permit of the account and a reservation of its upper bound; it is sent, retried by the retry policy,
settled, and recorded as events.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import anyio
import attrs

from orchestrator.engine.control.waits import Wait, WaitKind, Waits
from orchestrator.engine.gate.breaker import Breaker, ProviderBlocked
from orchestrator.engine.gate.charge import Charge, bound_of, charge_of
from orchestrator.engine.gate.governor import Ticket
from orchestrator.engine.gate.notices import AnswerNotices
from orchestrator.engine.gate.permits import Permits
from orchestrator.engine.gate.requests import AttemptRequests
from orchestrator.engine.gate.retry import RetryPolicy
from orchestrator.engine.gate.stopwatch import Stopwatch
from orchestrator.engine.hold import Hold
from orchestrator.engine.ports import Allotments, AttemptLog, Ledger
from providers.base import Answer, Emitted, Provider, ReasoningDelta, Request, Responded, TextDelta
from providers.endpoints.dialects.finishes import UNKNOWN_FINISH
from providers.endpoints.usage import is_plausible
from providers.errors import ProviderError
from providers.prices.price import Price
from providers.prices.table import Prices
from store.errors import EvalctlError
from store.events import Call, CallResponded, CallSent, Waited
from store.rows import Amount, Caps

FALLBACK_OUTPUT_TOKENS = 16_384
"""Output limit of a request under a cap that sets none itself."""
NOTICEABLE_WAIT_MS = 50
"""Shortest wait that is recorded."""


@attrs.define(slots=False)
class UnknownPrice(EvalctlError):
    """A USD cap is set, but the model has no price."""

    model: str

    def __str__(self) -> str:
        return f"--max-cost-usd: the price of {self.model!r} is unknown, so no request goes to it"


@attrs.define(kw_only=True)
class Gate:
    """Gate to one provider, shared by all runs of this process."""

    provider: Provider
    permits: Permits
    allotments: Allotments
    caps: Caps
    prices: Prices = attrs.field(factory=dict[str, Price])
    """By model; a model that is not in it has an unknown price."""
    allow_unpriced: bool = False
    """Whether a model of unknown price may be called under a cap in USD."""
    counts_tokens: bool = True
    """Whether the provider reads and writes tokens."""
    ledger: Ledger
    policy: RetryPolicy
    rng: random.Random
    on_blocked: Callable[[ProviderError], None] = lambda _error: None
    """Called once, when the circuit breaker opens."""
    notices: AnswerNotices = attrs.field(factory=lambda: AnswerNotices(account=""))
    """Shows what is unusual about the account's answers, each thing once."""
    waits: Waits = attrs.field(factory=Waits)
    breaker: Breaker = attrs.field(factory=Breaker)
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    clock: Callable[[], float] = attrs.field(factory=lambda: asyncio.get_running_loop().time)
    """Seconds. Bound to the event loop once, since a look-up per request costs more."""

    def bound_request(self, request: Request) -> tuple[Request, Amount]:
        """Return the request as it is sent and its upper bound. Under a cap every request gets an output limit.

        Raises:
            UnknownPrice: there is a cap in USD, and the model's price is unknown.
        """
        price = self.prices.get(request.model)
        if price is None and self.caps.nusd is not None and not self.allow_unpriced:
            raise UnknownPrice(request.model)
        if not self.counts_tokens:
            return request, Amount(calls=1)
        if request.max_output_tokens is None and (self.caps.tokens is not None or self.caps.nusd is not None):
            request = attrs.evolve(request, max_output_tokens=FALLBACK_OUTPUT_TOKENS)
        return request, bound_of(self.provider.size(request), request.max_output_tokens, price)

    def sent_size(self, request: Request, bound: Amount) -> int:
        """Size in bytes of a request with a known bound."""
        return bound.tokens - (request.max_output_tokens or 0) if self.counts_tokens else self.provider.size(request)


class GateOfRun:
    """The gate for one attempt; implements `providers.base.Ask`."""

    def __init__(self, gate: Gate, requests: AttemptRequests, policy: RetryPolicy | None = None) -> None:
        self.requests = requests
        self._policy = policy or gate.policy
        self._gate = gate
        self._log = requests.log

    async def __call__(self, request: Request) -> Answer:
        """See `providers.base.Ask`.

        Raises:
            ProviderError: the retry policy gave up.
            ProviderBlocked: the circuit breaker is open.
            CapExhausted: a cap of the sweep is exhausted.
            UnknownPrice: see `Gate.bound_request`.
            StoreFailed: the record can no longer be kept.
        """
        gate = self._gate
        number = next(self.requests.numbers)
        request, bound = gate.bound_request(attrs.evolve(request, key=f"{self.requests.key}/{number}"))
        faults, waited_s = 0, 0.0
        while True:
            with self._record_wait("store"):
                await gate.ledger.wait_for_backlog()
            ticket = await self._take_permit(bound)
            used: int | None = 0
            failure: ProviderError | None = None
            try:
                if gate.breaker.cause is not None:
                    raise ProviderBlocked(gate.breaker.cause)
                with self._record_wait("budget"):
                    await gate.allotments.reserve(bound)
                used = None
                sent = _SentRequest(self._log, request, number, gate)
                try:
                    with Wait(gate.waits, "answer", self.requests.position, self.requests.stall_scope.give_up):
                        answer = await sent.send_request(gate.provider, gate.sent_size(request, bound))
                finally:
                    charge = self._charge_request(bound, sent)
                    used = charge.amount.tokens
                    gate.allotments.settle(bound, charge.amount)
                    sent.record_charge(charge)
            except ProviderError as error:
                failure = error
            else:
                self._accept_answer(sent, answer)
                return answer
            finally:
                gate.permits.give_back(ticket, failure, used)
            if failure.wording:
                self.requests.note_incident("unknown_wording", {"status": failure.status, "words": failure.wording})
                gate.notices.report_error(failure)
            faults += failure.kind != "rate_limit"
            delay = self._policy.delay_before_retry(failure, faults=faults, waited_s=waited_s, rng=gate.rng)
            sent.record_reply(failure, delay)
            if delay is None:
                if gate.breaker.record_outcome(failure):
                    gate.on_blocked(failure)
                raise failure
            with self._record_wait("retry", until=gate.clock() + delay):
                await gate.sleep(delay)
            waited_s += delay
            request = attrs.evolve(request, tries=request.tries + 1)

    async def _take_permit(self, bound: Amount) -> Ticket:
        permits = self._gate.permits
        ticket = permits.try_take(bound.tokens)
        if ticket is None:
            with self._record_wait("permit", find_hold=lambda: permits.find_hold(bound.tokens)):
                ticket = await permits.take_permit(bound.tokens)
        return ticket

    def _accept_answer(self, sent: _SentRequest, answer: Answer) -> None:
        self._gate.breaker.record_outcome(None)
        sent.record_reply(answer, None)
        self.requests.note_model(sent.request.purpose, answer.model)
        for name in answer.notes:
            detail = {"finish": answer.finish_raw} if name == UNKNOWN_FINISH else None
            self.requests.note_incident(name, detail)
        self._gate.notices.report_answer(answer, self._gate.caps)

    def _charge_request(self, bound: Amount, sent: _SentRequest) -> Charge:
        """Compute the charge of a request, and count it and its incidents."""
        request, caps = sent.request, self._gate.caps
        price = self._gate.prices.get(request.model)
        charge = charge_of(sent.reply, bound, price, limited=request.max_output_tokens is not None)
        self.requests.count_request(request.purpose, charge)
        if charge.implausible and isinstance(sent.reply, Answer):
            self.requests.note_incident("usage_implausible")
        if charge.above_bound and (caps.tokens is not None or caps.nusd is not None):
            self.requests.note_incident("usage_above_bound")
        return charge

    def _record_wait(
        self, kind: WaitKind, until: float | None = None, find_hold: Callable[[], Hold | None] | None = None
    ) -> _Wait:
        # A wait for the store has a bound of its own in the store, and after it nothing could be written anyway.
        give_up = None if kind == "store" else self.requests.stall_scope.give_up
        wait = Wait(self._gate.waits, kind, self.requests.position, give_up, until=until, find_hold=find_hold)
        return _Wait(wait, self.requests.watch, self._log)


class _Wait:
    """A wait that is not the run's work: its stopwatch stands still, and a noticeable wait is recorded.

    A class, because a generator would cost more than most waits.
    """

    __slots__ = ("_before", "_log", "_wait", "_watch")

    def __init__(self, wait: Wait, watch: Stopwatch, log: AttemptLog) -> None:
        self._wait = wait
        self._watch = watch
        self._log = log
        self._before = watch.waited_s

    def __enter__(self) -> None:
        self._watch.stop_watch()
        self._wait.begin_wait()

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self._wait.end_wait()
        self._watch.restart_watch()
        waited_ms = round((self._watch.waited_s - self._before) * 1000)
        if kind is None and waited_ms >= NOTICEABLE_WAIT_MS:
            self._log.append_event(Waited(why=self._wait.kind, ms=waited_ms))


class _SentRequest:
    """One request on the wire, and its events."""

    def __init__(self, log: AttemptLog, request: Request, number: int, gate: Gate) -> None:
        self.request = request
        self.reply: Answer | ProviderError | None = None
        """The answer or the error; None before it, and for a request that was cut off."""
        self._charge: Charge | None = None
        self._log = log
        self._number = number
        self._account = gate.provider.account
        self._responded = Responded(status=0)
        self._waits = gate.waits
        self._clock = gate.clock
        self._started = gate.clock()

    async def send_request(self, provider: Provider, size: int) -> Answer:
        """Send the request of *size* bytes and wait for its answer.

        Raises:
            ProviderError: the provider failed, or took longer than the request's time limit.
        """
        request = self.request
        self._log.append_event(
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
            answer = await self._answer_in_time(provider)
        except ProviderError as error:
            self.reply = error
            raise
        self.reply = answer
        # Scripts and plug-ins may report anything; the readers of our own endpoints have checked their usage.
        return answer if is_plausible(answer.usage) else attrs.evolve(answer, usage=None)

    async def _answer_in_time(self, provider: Provider) -> Answer:
        allowed_ms = self.request.timeout_ms
        if allowed_ms is None:
            return await provider.answer(self.request, self._forward_delta)
        with anyio.move_on_after(allowed_ms / 1000):
            return await provider.answer(self.request, self._forward_delta)
        raise ProviderError(kind="timeout", message=f"no whole answer within {allowed_ms} ms", retryable=False)

    def record_charge(self, charge: Charge) -> None:
        """Keep the charge, and record the end of a request that was cut off: it may have cost something."""
        self._charge = charge
        if self.reply is None:
            self._record_call(error="cancelled")

    def record_reply(self, reply: Answer | ProviderError, retry_in_s: float | None) -> None:
        """Record the end of a request; *retry_in_s* is the delay before it is sent again, None if it is not."""
        if isinstance(reply, ProviderError):
            self._record_call(
                status=reply.status,
                model=reply.model,
                error=reply.kind,
                message=reply.message,
                retry_in_ms=None if retry_in_s is None else round(retry_in_s * 1000),
            )
            return
        self._record_call(
            model=reply.model,
            finish=reply.finish,
            tool_calls=tuple(
                {"id": call.id, "name": call.name, "arguments": call.raw if call.arguments is None else call.arguments}
                for call in reply.calls
            ),
            refusal=reply.refusal or None,
            continuation=reply.continuation,
        )

    def _record_call(self, *, status: int | None = None, **facts: object) -> None:
        charge = self._charge
        assert charge is not None, "a request is charged before its end is recorded"
        self._log.append_event(
            Call(
                request=self._number,
                tries=self.request.tries,
                account=self._account,
                status=status or self._responded.status or None,
                provider_request_id=self._responded.provider_request_id,
                wall_ms=round((self._clock() - self._started) * 1000),
                usage=charge.usage.to_json() if charge.usage is not None else None,
                tokens=charge.amount.tokens,
                cost_nusd=charge.cost_nusd,
                cost_source=charge.source,
                **facts,  # type: ignore[arg-type]  # the callers above name fields of Call
            )
        )

    def _forward_delta(self, item: Emitted) -> None:
        self._waits.progressed = True
        match item:
            case TextDelta(text):
                self._log.append_delta("text", self._number, text)
            case ReasoningDelta(text):
                self._log.append_delta("reasoning", self._number, text)
            case Responded():
                self._responded = item
                self._log.append_event(
                    CallResponded(
                        request=self._number,
                        tries=self.request.tries,
                        status=item.status,
                        provider_request_id=item.provider_request_id,
                    )
                )
