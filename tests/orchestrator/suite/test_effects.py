from typing import Any

import pytest

from orchestrator.suite.effects import Grants, make_policy, refuse_ungranted
from orchestrator.suite.model import Task, TaskBudget, TaskPolicy
from store.errors import UsageError


def task(**policy: Any) -> Task:
    return Task(
        id="t",
        prompt="p",
        fixture="f",
        budget=TaskBudget(max_turns=1, max_wall_ms=1),
        policy=TaskPolicy(**policy),
        verifiers=(),
    )


def test_an_effect_that_was_not_granted_is_refused_naming_task_and_effect() -> None:
    with pytest.raises(UsageError) as refused:
        refuse_ungranted([task(allow=("write", "process"))], Grants(effects=frozenset({"write"})))
    assert "task 't' asks for the effect 'process'" in str(refused.value)
    assert "--allow-process" in str(refused.value)
    assert "--allow-write" not in str(refused.value)


def test_mode_full_needs_its_own_flag() -> None:
    with pytest.raises(UsageError, match="allow-suite-full"):
        refuse_ungranted([task(mode="full")], Grants())
    refuse_ungranted([task(mode="full")], Grants(suite_full=True))


def test_read_only_grants_nothing_but_reading() -> None:
    with pytest.raises(UsageError):
        refuse_ungranted([task(allow=("write",))], Grants(effects=frozenset({"write"}), read_only=True))
    assert make_policy(task(), Grants(effects=frozenset({"write"}), read_only=True)).granted == {"read"}


def test_auto_gets_what_it_asks_and_not_what_the_caller_could_give() -> None:
    grants = Grants(effects=frozenset({"write", "process"}))
    assert make_policy(task(allow=("write",)), grants).granted == {"read", "write"}


def test_full_gets_all_the_callers_flags() -> None:
    grants = Grants(effects=frozenset({"write", "process"}), suite_full=True)
    assert make_policy(task(mode="full"), grants).granted == {"read", "write", "process"}


def test_ask_gets_what_it_asks_and_would_need_approval_for_the_rest() -> None:
    policy = make_policy(task(mode="ask", allow=("write",)), Grants(effects=frozenset({"write", "process"})))
    assert policy.granted == {"read", "write"}
    assert policy.askable == {"process", "external", "analysis"}


def test_a_read_only_task_in_ask_mode_is_offered_nothing_more() -> None:
    policy = make_policy(task(mode="ask", allow=("write",), read_only=True), Grants(effects=frozenset({"write"})))
    assert policy.granted == {"read"}
    assert policy.askable == frozenset()


def test_a_read_only_task_may_name_effects_it_will_not_get() -> None:
    restricted = task(allow=("write",), read_only=True)
    refuse_ungranted([restricted], Grants())
    assert make_policy(restricted, Grants(effects=frozenset({"write"}))).granted == {"read"}
