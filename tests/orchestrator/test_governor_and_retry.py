import random

import pytest

from orchestrator.governor import Governor
from orchestrator.retry import RetryPolicy
from providers.base import ProviderError


def fault(kind="server_error", *, retryable=True, after=None):
    return ProviderError(kind=kind, message="x", retryable=retryable, retry_after_s=after)


def test_the_governor_admits_up_to_its_limit():
    governor = Governor(limit=2)
    governor.started()
    assert governor.admits(0.0)
    governor.started()
    assert not governor.admits(0.0)
    assert governor.opens_in(0.0) is None
    governor.ended(0.0, None)
    assert governor.admits(0.0)


def test_a_retry_after_pauses_the_whole_account_until_then():
    governor = Governor(limit=2)
    governor.started()
    governor.ended(10.0, fault("rate_limit", after=2.0))
    assert not governor.admits(11.9)
    assert governor.opens_in(11.0) == pytest.approx(1.0)
    assert governor.admits(12.0)


def test_a_retry_after_that_nobody_will_wait_for_pauses_nobody():
    governor = Governor(limit=2, longest_pause_s=120.0)
    governor.started()
    governor.ended(10.0, fault("rate_limit", after=99_999.0))
    assert governor.admits(10.0)


def test_a_server_error_does_not_pause_the_account():
    governor = Governor(limit=1)
    governor.started()
    governor.ended(0.0, fault("server_error", after=5.0))
    assert governor.admits(0.0)


@pytest.mark.parametrize(("retries", "asked"), [(0, 1), (1, 2), (3, 4)])
def test_an_endpoint_that_stays_silent_is_asked_again_as_often_as_configured(retries, asked):
    policy = RetryPolicy(first_token_retries=retries)
    delays = [policy.delay(fault("timeout"), faults=n, waited_s=0.0, rng=random.Random(0)) for n in range(1, 6)]
    assert [delay is not None for delay in delays] == [n < asked for n in range(1, 6)]


def test_a_timeout_after_some_text_or_told_by_a_gateway_is_a_fault_like_others():
    policy = RetryPolicy(retries=4, first_token_retries=0)
    begun, told = fault("timeout"), fault("timeout")
    begun.text, told.status = "so far", 504
    for error in (begun, told):
        assert policy.delay(error, faults=4, waited_s=0.0, rng=random.Random(0)) is not None


def test_faults_are_retried_a_bounded_number_of_times():
    policy = RetryPolicy(retries=2)
    delays = [policy.delay(fault(), faults=n, waited_s=0.0, rng=random.Random(0)) for n in (1, 2, 3)]
    assert delays[0] is not None
    assert delays[1] is not None
    assert delays[2] is None


def test_what_is_not_retryable_is_not_retried():
    assert RetryPolicy().delay(fault("auth", retryable=False), faults=1, waited_s=0, rng=random.Random(0)) is None


def test_retry_after_is_a_minimum_and_clients_are_spread():
    policy = RetryPolicy()
    rng = random.Random(1)
    delays = {policy.delay(fault("rate_limit", after=2.0), faults=0, waited_s=0, rng=rng) for _ in range(20)}
    assert min(delays) >= 2.0
    assert max(delays) <= 2.2
    assert len(delays) == 20


def test_a_longer_retry_after_than_allowed_fails_at_once():
    assert RetryPolicy().delay(fault("rate_limit", after=3600), faults=0, waited_s=0, rng=random.Random(0)) is None


def test_throttling_is_bounded_by_time_not_by_number():
    policy = RetryPolicy(retries=0, max_stall_s=100)
    rng = random.Random(0)
    assert policy.delay(fault("rate_limit", after=2), faults=0, waited_s=50, rng=rng) is not None
    assert policy.delay(fault("rate_limit", after=2), faults=0, waited_s=99, rng=rng) is None


@pytest.mark.parametrize("after", [None, 0.0, 0.001])
def test_throttling_without_a_figure_worth_the_name_ends_after_few_tries(after):
    policy = RetryPolicy(max_stall_s=600)
    rng = random.Random(0)
    waited, tries = 0.0, 0
    while (delay := policy.delay(fault("rate_limit", after=after), faults=0, waited_s=waited, rng=rng)) is not None:
        waited, tries = waited + delay, tries + 1
        assert 0.25 <= delay <= 8.0
    assert 60 < tries < 200
    assert waited > 590


def test_backoff_grows_and_is_jittered_fully():
    policy = RetryPolicy(retries=10)
    rng = random.Random(0)
    early = [policy.delay(fault(), faults=1, waited_s=0, rng=rng) for _ in range(200)]
    late = [policy.delay(fault(), faults=9, waited_s=0, rng=rng) for _ in range(200)]
    assert max(early) <= 0.5
    assert max(late) <= 8.0
    assert min(late) < 1.0
    assert sum(late) > 5 * sum(early)
