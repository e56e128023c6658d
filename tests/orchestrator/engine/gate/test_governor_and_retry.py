import random

import attrs
import pytest

from orchestrator.engine.gate.breaker import Breaker
from orchestrator.engine.gate.bucket import Bucket
from orchestrator.engine.gate.governor import Governor, Ticket
from orchestrator.engine.gate.retry import RetryPolicy
from providers.errors import ErrorKind, ProviderError


def fault(kind: ErrorKind = "server_error", *, retryable: bool = True, after: float | None = None) -> ProviderError:
    return ProviderError(kind=kind, message="x", retryable=retryable, retry_after_s=after)


def answered(governor: Governor, now: float = 0.0, error: ProviderError | None = None) -> bool:
    """One request that starts and ends at *now*."""
    return governor.end_request(now, governor.start_request(now), error)


def test_the_governor_admits_up_to_its_limit() -> None:
    governor = Governor(cap=2)
    first = governor.start_request(0.0)
    assert governor.admits_request(0.0)
    governor.start_request(0.0)
    assert not governor.admits_request(0.0)
    assert governor.opens_in(0.0) is None
    governor.end_request(0.0, first, None)
    assert governor.admits_request(0.0)


@pytest.mark.parametrize(("cap", "start"), [(4, 4), (20, 20), (30, 20), (100, 50)])
def test_the_limit_starts_at_half_the_cap_and_at_least_twenty(cap: int, start: int) -> None:
    assert Governor(cap=cap).allowed == start


def test_the_limit_grows_by_one_an_answer_up_to_the_cap() -> None:
    governor = Governor(cap=60)
    tickets = [governor.start_request(0.0) for _ in range(30)]
    for ticket in tickets:
        governor.end_request(1.0, ticket, None)
        tickets.append(governor.start_request(1.0)) if len(tickets) < 200 else None
    assert governor.allowed == 60


def test_a_burst_of_throttled_answers_costs_one_cut() -> None:
    governor = Governor(cap=100)
    tickets = [governor.start_request(0.0) for _ in range(50)]
    cuts = [governor.end_request(1.0, ticket, fault("rate_limit")) for ticket in tickets]
    assert cuts.count(True) == 1
    assert governor.allowed == 25
    later = governor.start_request(2.0)
    assert governor.end_request(3.0, later, fault("rate_limit"))
    assert governor.cuts == 2


def test_a_storm_brings_the_limit_to_its_floor_and_clear_weather_lets_it_climb_back() -> None:
    governor, now = Governor(cap=40), 0.0
    for _ in range(60):
        now += 1
        while governor.admits_request(now):
            governor.start_request(now)
        for ticket in [Ticket(at=now, tokens=0) for _ in range(governor.in_flight)]:
            governor.end_request(now, ticket, fault("rate_limit"))
    assert governor.allowed == 1
    for _ in range(2000):
        now += 1
        while governor.admits_request(now):
            governor.start_request(now)
        for ticket in [Ticket(at=now, tokens=0) for _ in range(governor.in_flight)]:
            governor.end_request(now, ticket, None)
    assert governor.allowed == 40


def test_an_unused_limit_does_not_grow() -> None:
    governor = Governor(cap=100)
    for _ in range(100):
        answered(governor)
    assert governor.allowed == 50


def test_a_retry_after_pauses_the_whole_account_until_then() -> None:
    governor = Governor(cap=2)
    answered(governor, 10.0, fault("rate_limit", after=2.0))
    assert not governor.admits_request(11.9)
    assert governor.opens_in(11.0) == pytest.approx(1.0)
    assert governor.admits_request(12.0)


def test_a_retry_after_that_nobody_will_wait_for_does_not_pause_the_others() -> None:
    governor = Governor(cap=2, max_pause_s=120.0)
    answered(governor, 10.0, fault("rate_limit", after=3600.0))
    assert governor.admits_request(10.0)


def test_a_server_error_neither_pauses_nor_cuts() -> None:
    governor = Governor(cap=1)
    assert not answered(governor, 0.0, fault("server_error", after=5.0))
    assert governor.admits_request(0.0)


def test_requests_per_minute_are_kept_over_any_minute() -> None:
    governor, started = Governor(cap=1000, requests=Bucket(60)), []
    for tick in range(1200):  # two minutes in tenths of a second, as fast as allowed
        now = tick / 10
        while governor.admits_request(now):
            governor.end_request(now, governor.start_request(now), None)
            started.append(now)
    assert 118 <= len(started) <= 130
    busiest = max(sum(at <= other < at + 60 for other in started) for at in started)
    assert busiest <= 70  # the rate and one burst of a sixth


def test_tokens_are_charged_by_bound_and_corrected_by_use() -> None:
    governor = Governor(cap=10, tokens=Bucket(6000))
    ticket = governor.start_request(0.0, 1000)
    assert governor.opens_in(0.0, 1000) == pytest.approx(10.0)
    governor.end_request(0.0, ticket, None, 100)
    assert governor.opens_in(0.0, 900) == 0


def test_a_request_above_the_rate_passes_when_the_bucket_is_full() -> None:
    governor = Governor(cap=10, tokens=Bucket(600))
    assert governor.admits_request(0.0, 5000)
    governor.start_request(0.0, 5000)
    assert governor.opens_in(0.0, 1) == pytest.approx(490.1)


def test_rates_are_shared_by_live_processes() -> None:
    governor = Governor(cap=10, requests=Bucket(120))
    governor.divide_rates(2)
    for _ in range(10):
        answered(governor)
    assert governor.opens_in(0.0) == pytest.approx(1.0)


def test_a_refused_credential_opens_the_breaker_once() -> None:
    breaker = Breaker()
    assert breaker.record_outcome(fault("auth", retryable=False))
    assert not breaker.record_outcome(fault("auth", retryable=False))
    assert breaker.cause.kind == "auth"


def test_refusals_that_may_concern_one_request_open_it_when_nothing_else_comes() -> None:
    breaker = Breaker()
    refusals = [fault("permission", retryable=False)] * 2
    assert [breaker.record_outcome(error) for error in [*refusals, None, *refusals]] == [False] * 5
    assert breaker.record_outcome(refusals[0])


def test_other_failures_leave_the_breaker_closed() -> None:
    breaker = Breaker()
    for kind in ("network", "rate_limit", "context_length", "model_not_found"):
        assert not breaker.record_outcome(fault(kind, retryable=False))
    assert breaker.cause is None


def test_faults_are_retried_a_bounded_number_of_times() -> None:
    policy = RetryPolicy(retries=2)
    delays = [policy.delay_before_retry(fault(), faults=n, waited_s=0.0, rng=random.Random(0)) for n in (1, 2, 3)]
    assert delays[0] is not None
    assert delays[1] is not None
    assert delays[2] is None


def test_what_is_not_retryable_is_not_retried() -> None:
    assert (
        RetryPolicy().delay_before_retry(fault("auth", retryable=False), faults=1, waited_s=0, rng=random.Random(0))
        is None
    )


def test_retry_after_is_a_minimum_and_clients_are_spread() -> None:
    policy = RetryPolicy()
    rng = random.Random(1)
    delays = {
        policy.delay_before_retry(fault("rate_limit", after=2.0), faults=0, waited_s=0, rng=rng) for _ in range(20)
    }
    assert min(delays) >= 2.0
    assert max(delays) <= 2.2
    assert len(delays) == 20


def test_a_longer_retry_after_than_allowed_fails_at_once() -> None:
    assert (
        RetryPolicy().delay_before_retry(fault("rate_limit", after=3600), faults=0, waited_s=0, rng=random.Random(0))
        is None
    )


def test_throttling_is_bounded_by_time_not_by_number() -> None:
    policy = RetryPolicy(retries=0, max_stall_s=100)
    rng = random.Random(0)
    assert policy.delay_before_retry(fault("rate_limit", after=2), faults=0, waited_s=50, rng=rng) is not None
    assert policy.delay_before_retry(fault("rate_limit", after=2), faults=0, waited_s=99, rng=rng) is None


@pytest.mark.parametrize("after", [None, 0.0, 0.001])
def test_throttling_without_a_figure_worth_the_name_ends_after_few_tries(after: float | None) -> None:
    policy = RetryPolicy(max_stall_s=600)
    rng = random.Random(0)
    waited, tries = 0.0, 0
    while (
        delay := policy.delay_before_retry(fault("rate_limit", after=after), faults=0, waited_s=waited, rng=rng)
    ) is not None:
        waited, tries = waited + delay, tries + 1
        assert 0.25 <= delay <= 8.0
    assert 60 < tries < 200
    assert waited > 590


def test_backoff_grows_and_is_jittered_fully() -> None:
    policy = RetryPolicy(retries=10)
    rng = random.Random(0)
    early = [policy.delay_before_retry(fault(), faults=1, waited_s=0, rng=rng) for _ in range(200)]
    late = [policy.delay_before_retry(fault(), faults=9, waited_s=0, rng=rng) for _ in range(200)]
    assert max(early) <= 0.5
    assert max(late) <= 8.0
    assert min(late) < 1.0
    assert sum(late) > 5 * sum(early)


def test_what_holds_a_request_back_is_the_last_to_give_way_and_has_its_flag() -> None:
    governor = Governor(cap=4, requests=Bucket(60), tokens=Bucket(6))
    assert governor.find_hold(0.0, 5) is None
    governor.end_request(0.0, governor.start_request(0.0, 13), None, 13)
    hold = governor.find_hold(0.0, 5)
    assert (hold.until, hold.cause, hold.flag) == (130.0, "--tpm 6", "--tpm")
    governor.divide_rates(2)
    assert governor.find_hold(0.0, 5).cause == "--tpm 6 (shared by 2 processes)"
    governor.end_request(0.0, governor.start_request(0.0), fault("rate_limit", after=110.0))
    assert "Retry-After" in Governor(cap=4, paused_until=20.0).find_hold(0.0).cause


def test_what_a_request_in_flight_may_give_back_is_held_by_nothing_that_is_known() -> None:
    governor = Governor(cap=4, tokens=Bucket(60))
    ticket = governor.start_request(0.0, 1000)
    assert governor.find_hold(0.0, 10) is None
    governor.end_request(0.0, ticket, None, 5)
    assert governor.find_hold(0.0, 10).until == pytest.approx(5.0)
    full = Governor(cap=1, requests=Bucket(1))
    full.start_request(0.0)
    assert full.find_hold(0.0) is None


def test_no_retry_waits_longer_than_any_wait_may_be() -> None:
    policy = RetryPolicy(max_wait_s=1000, max_stall_s=100)
    rng = random.Random(0)
    assert policy.delay_before_retry(fault(after=90.0), faults=1, waited_s=500.0, rng=rng) >= 90
    assert policy.delay_before_retry(fault(after=101.0), faults=1, waited_s=0.0, rng=rng) is None


def count_retries(error: ProviderError, policy: RetryPolicy) -> int:
    """How often a request that always fails with *error* is sent again."""
    rng = random.Random(0)
    return next(n for n in range(99) if policy.delay_before_retry(error, faults=n + 1, waited_s=0.0, rng=rng) is None)


def test_answer_that_was_broken_off_is_requested_again_at_most_twice() -> None:
    broken = attrs.evolve(fault(), broken_off=True)
    assert count_retries(fault(), RetryPolicy()) == 4
    assert count_retries(broken, RetryPolicy()) == 2
    assert count_retries(broken, RetryPolicy(retries=1)) == 1
    assert count_retries(broken, RetryPolicy(retries=0)) == 0


def test_answer_behind_keep_alives_is_requested_again_as_seldom_as_one_that_never_began() -> None:
    stalled = attrs.evolve(fault("timeout"), text="The ", status=200)
    assert count_retries(stalled, RetryPolicy()) == 4
    assert count_retries(attrs.evolve(stalled, kept_alive=True), RetryPolicy()) == 1
    assert count_retries(attrs.evolve(stalled, kept_alive=True), RetryPolicy(first_token_retries=0)) == 0
