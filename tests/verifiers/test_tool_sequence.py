from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import ToolUse
from verifiers.base import Evidence
from verifiers.tool_sequence import CalledBefore, MaxCalls, NeverCalled, NoRepeatFailure, ToolSequence, find_breach


def uses(text: str) -> list[ToolUse]:
    """`r` reads, `e` edits, `b` bash; a capital letter fails."""
    names = {"r": "read_file", "e": "edit_file", "b": "bash"}
    return [ToolUse(name=names[c.lower()], arguments={"path": "x"}, is_error=c.isupper()) for c in text]


@pytest.mark.parametrize(
    ("rule", "calls", "holds"),
    [
        (CalledBefore(first="read_file", then="edit_file"), "re", True),
        (CalledBefore(first="read_file", then="edit_file"), "ree", True),
        (CalledBefore(first="read_file", then="edit_file"), "er", False),
        (CalledBefore(first="read_file", then="edit_file"), "ere", False),
        (CalledBefore(first="read_file", then="edit_file"), "bb", True),
        (CalledBefore(first="read_file", then="edit_file"), "", True),
        (CalledBefore(first="bash", then="bash"), "b", False),
        (NeverCalled(tool="bash"), "rer", True),
        (NeverCalled(tool="bash"), "reB", False),
        (MaxCalls(tool="read_file", max=2), "rer", True),
        (MaxCalls(tool="read_file", max=2), "rerR", False),
        (MaxCalls(tool="bash", max=0), "re", True),
        (NoRepeatFailure(tool="edit_file"), "EreE", False),
        (NoRepeatFailure(tool="edit_file"), "Ere", True),
        (NoRepeatFailure(tool="edit_file"), "ee", True),
        (NoRepeatFailure(tool="edit_file"), "BB", True),
    ],
)
def test_rules(rule: CalledBefore | MaxCalls | NeverCalled | NoRepeatFailure, calls: str, holds: bool) -> None:
    assert (find_breach(rule, uses(calls)) is None) is holds


def test_a_failure_with_other_arguments_is_not_a_repetition() -> None:
    calls = [ToolUse(name="edit_file", arguments={"path": p, "n": 1}, is_error=True) for p in ("a", "b")]
    assert find_breach(NoRepeatFailure(tool="edit_file"), calls) is None
    again = ToolUse(name="edit_file", arguments={"n": 1, "path": "a"}, is_error=True)
    assert find_breach(NoRepeatFailure(tool="edit_file"), [*calls, again]) == {
        "call": 3,
        "tool": "edit_file",
        "first": 1,
    }


@given(st.text("rebREB"))
def test_a_tool_never_called_is_the_same_as_at_most_none(calls: str) -> None:
    never, most = (
        find_breach(NeverCalled(tool="bash"), uses(calls)),
        find_breach(MaxCalls(tool="bash", max=0), uses(calls)),
    )
    assert (never is None) == (most is None)


@pytest.mark.anyio
async def test_a_subject_that_does_not_tell_its_calls_is_an_error(evidence: Callable[..., Evidence]) -> None:
    verifier = ToolSequence(id="t", rule=NeverCalled(tool="bash"))
    assert (await verifier.verify(evidence(tools=None))).verdict == "error"
    assert (await verifier.verify(evidence(tools=()))).verdict == "pass"
    said = await verifier.verify(evidence(tools=tuple(uses("rb"))))
    assert (said.verdict, said.detail) == ("fail", {"reason": "never", "call": 2, "tool": "bash"})
