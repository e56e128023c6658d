from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import attrs
import pytest

from providers.agent.loop import AGENT_INSTRUCTIONS, TOOLS, BuiltinAgent
from providers.base import (
    AgentSettings,
    Answer,
    AssistantTurn,
    Policy,
    Request,
    ToolAnswer,
    ToolCall,
    UserText,
)
from providers.errors import ProviderError
from providers.usage import Usage
from store.errors import StoreFailed
from store.events import Event, ToolCompleted, ToolStarted, WorkStarted
from tests.providers.agent.conftest import Work, call, make_assignment

pytestmark = pytest.mark.anyio
OFFERED = ["read_file", "list_files", "write_file", "edit_file", "search_text", "bash"]


def reads(count: int, *, first: int = 0) -> tuple[ToolCall, ...]:
    return tuple(call("list_files", id=f"r{number}") for number in range(first, first + count))


def used(input: int | None, output: int | None = 0, **more: int) -> Usage:  # noqa: A002 - reads as the field it fills
    return Usage(input=input, output=output, **more)


def error(kind: str) -> ProviderError:
    return ProviderError(kind=kind, message="x", retryable=False)  # type: ignore[arg-type]


async def test_answer_without_calls_ends_the_work(work: Work) -> None:
    worked = await work([Answer(text="hello", finish="stop", usage=used(10, 2), model="m-1")])

    done = worked.done
    assert (done.stop, done.reason, done.text, done.turns, done.model) == ("completed", None, "hello", 1, "m-1")
    assert worked.requests[0].messages == (UserText(text="do it"),)
    assert worked.requests[0].instructions == AGENT_INSTRUCTIONS
    assert worked.events == [
        WorkStarted(
            instructions=AGENT_INSTRUCTIONS,
            prompt="do it",
            tools=("read_file", "list_files", "write_file", "edit_file", "search_text", "bash"),
            model="m",
            tool_specs=json.dumps([attrs.asdict(spec) for spec in worked.requests[0].tools]),
        )
    ]


async def test_task_is_done_over_several_turns(work: Work, workspace: Path) -> None:
    worked = await work(
        [
            Answer(
                text="I write.", calls=(call("write_file", path="a", content="x", expectedHash=None),), usage=used(1)
            ),
            Answer(calls=(call("bash", id="c2", command="cat a"),), usage=used(1)),
            Answer(text="done", usage=used(1)),
        ]
    )

    assert (workspace / "a").read_text() == "x"
    assert worked.done.stop == "completed"
    assert worked.done.turns == 3
    assert [(use.name, use.is_error) for use in worked.done.tools] == [("write_file", False), ("bash", False)]
    kinds = [type(message) for message in worked.requests[-1].messages]
    assert kinds == [UserText, AssistantTurn, ToolAnswer, AssistantTurn, ToolAnswer]
    assert '"stdout": "x"' in worked.answers[-1].text
    assert [type(event) for event in worked.events] == [WorkStarted, *[ToolStarted, ToolCompleted] * 2]


async def test_settings_reach_every_request(work: Work) -> None:
    settings = AgentSettings(
        instructions="be brief",
        max_output_tokens=77,
        reasoning_effort="low",
        native_tools=({},),
        first_token_timeout_ms=5,
    )
    worked = await work([Answer(calls=reads(1)), Answer()], settings=settings)

    for request in worked.requests:
        assert (request.instructions, request.max_output_tokens) == ("be brief", 77)
        assert (request.reasoning_effort, request.native_tools) == ("low", ({},))
        assert request.first_token_timeout_ms == 5
        assert [tool.name for tool in request.tools] == OFFERED


# --- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "configured"), [(2, 100), (9, 2)])
async def test_turns_are_bounded_by_the_task_and_by_the_settings(work: Work, budget: int, configured: int) -> None:
    answers = [Answer(calls=reads(1, first=number)) for number in range(5)]
    worked = await work(answers, max_turns=budget, settings=AgentSettings(max_turns=configured))

    assert (worked.done.stop, worked.done.reason, worked.done.turns) == ("budget", "maxTurns", 2)
    assert len(worked.done.tools) == 2


async def test_tokens_are_checked_after_an_answer_and_before_its_calls(work: Work, workspace: Path) -> None:
    worked = await work(
        [
            Answer(calls=reads(1), usage=used(50, 10)),
            Answer(calls=(call("bash", command="touch a"),), usage=used(60, 10)),
        ],
        max_tokens=100,
    )

    assert (worked.done.stop, worked.done.reason) == ("budget", "maxTokens")
    assert len(worked.done.tools) == 1
    assert not (workspace / "a").exists()


async def test_exactly_the_tokens_allowed_are_within_the_budget(work: Work) -> None:
    worked = await work([Answer(usage=used(90, 10))], max_tokens=100)

    assert worked.done.stop == "completed"


async def test_unreported_usage_is_told_once_and_bounds_nothing(work: Work) -> None:
    worked = await work([Answer(calls=reads(1)), Answer(calls=reads(1, first=1)), Answer()], max_tokens=1)

    assert worked.done.stop == "completed"
    assert worked.done.usage is None
    assert worked.incidents == ["usage_unreported"]


async def test_usage_that_the_wire_has_called_unreported_is_not_told_again(work: Work) -> None:
    worked = await work([Answer(notes=("usage_unreported",))])

    assert worked.incidents == []


async def test_call_beyond_the_budget_is_not_run(work: Work, workspace: Path) -> None:
    calls = tuple(call("bash", id=name, command=f"touch {name}") for name in "abc")
    worked = await work([Answer(calls=calls)], max_tool_calls=2)

    assert (worked.done.stop, worked.done.reason) == ("budget", "maxToolCalls")
    assert sorted(path.name for path in workspace.iterdir()) == ["a", "b"]
    assert len(worked.done.tools) == 2


async def test_calls_up_to_the_budget_are_no_reason_to_stop(work: Work) -> None:
    worked = await work([Answer(calls=reads(2)), Answer(text="done")], max_tool_calls=2)

    assert worked.done.stop == "completed"


async def test_sixty_four_calls_of_one_turn_are_answered(work: Work) -> None:
    worked = await work([Answer(calls=reads(64)), Answer()])

    assert len(worked.answers) == 64


async def test_more_calls_in_one_turn_end_the_work_before_any_is_run(work: Work) -> None:
    worked = await work([Answer(calls=reads(65))])

    assert (worked.done.stop, worked.done.reason) == ("failed", "too_many_tool_calls")
    assert worked.done.tools == ()


async def test_transcript_that_grows_too_long_ends_the_work(work: Work) -> None:
    worked = await work(
        [Answer(calls=(call("write_file", path="long", content="x" * 20_000, expectedHash=None),)), Answer()],
        settings=AgentSettings(max_context_chars=10_000, compaction_auto=False),
    )

    assert (worked.done.stop, worked.done.reason, worked.done.turns) == ("failed", "context_overflow", 1)


async def test_prompt_that_is_too_long_is_not_the_models_fault(work: Work) -> None:
    with pytest.raises(ProviderError, match="maxContextChars"):
        await work([Answer()], settings=AgentSettings(max_context_chars=10))


# --- answers that break off ---------------------------------------------------------------------------------------


async def test_cut_answer_is_asked_for_again_with_a_notice_and_counts_no_turn(work: Work) -> None:
    worked = await work(
        [Answer(text="half", finish="length", usage=used(1, 100)), Answer(text="whole", usage=used(2, 3))]
    )

    first, second = worked.requests
    assert second.messages[:-1] == first.messages
    assert isinstance(second.messages[-1], UserText)
    assert (worked.done.turns, worked.done.text, worked.done.usage) == (1, "whole", Usage(input=2, output=3))
    assert worked.incidents == ["truncation_recovery"]


async def test_notice_does_not_stay_in_the_transcript(work: Work) -> None:
    worked = await work([Answer(finish="length"), Answer(calls=reads(1)), Answer()])

    assert [type(message) for message in worked.requests[-1].messages] == [UserText, AssistantTurn, ToolAnswer]


@pytest.mark.parametrize("recoveries", [0, 2])
async def test_answers_cut_too_often_end_the_work(work: Work, recoveries: int) -> None:
    worked = await work(
        [Answer(text="half", finish="length")] * (recoveries + 1),
        settings=AgentSettings(truncation_recoveries=recoveries),
    )

    assert (worked.done.stop, worked.done.reason) == ("failed", "truncated_output")
    assert worked.done.turns == 0
    assert worked.done.usage is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(finish="content_filter"), "content_filter"),
        (Answer(finish="refusal", refusal="no"), "refusal"),
        (Answer(finish="stop", refusal="no"), "refusal"),
    ],
)
async def test_answer_that_was_withheld_ends_the_work(work: Work, answer: Answer, reason: str) -> None:
    worked = await work([answer])

    assert (worked.done.stop, worked.done.reason) == ("failed", reason)


async def test_answer_that_the_provider_calls_an_error_is_not_the_models_fault(work: Work) -> None:
    with pytest.raises(ProviderError, match="ended with an error"):
        await work([Answer(finish="error")])


async def test_paused_answer_is_continued(work: Work) -> None:
    worked = await work([Answer(text="wait", finish="pause", continuation={"a": 1}), Answer(text="done")])

    assert worked.requests[-1].messages[-1] == AssistantTurn(text="wait", continuation={"a": 1})
    assert worked.done.turns == 2


@pytest.mark.parametrize("kind", ["bad_tool_call", "content_filter"])
async def test_error_that_the_model_caused_ends_the_work(work: Work, kind: str) -> None:
    worked = await work([error(kind)])

    assert (worked.done.stop, worked.done.reason) == ("failed", kind)


async def test_context_that_overflows_is_the_models_fault_from_the_second_turn_on(work: Work) -> None:
    worked = await work([Answer(calls=reads(1)), error("context_length")])

    assert (worked.done.stop, worked.done.reason) == ("failed", "context_overflow")
    with pytest.raises(ProviderError, match="context_length"):
        await work([error("context_length")])


@pytest.mark.parametrize("kind", ["network", "auth", "quota", "server_error", "invalid_request"])
async def test_infrastructure_errors_pass_through(work: Work, kind: str) -> None:
    with pytest.raises(ProviderError, match=kind):
        await work([Answer(calls=reads(1)), error(kind)])


# --- calls that are wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (call("rm_rf", path="/"), "there is no tool 'rm_rf'; the tools are: read_file"),
        (ToolCall(id="c1", name="bash", arguments=None, raw="[1", problem="not JSON"), "no JSON object: not JSON"),
        (call("read_file"), "path is missing"),
        (call("read_file", path=3), "path must be string"),
        (call("read_file", path="a", startLine=0), "startLine must be from 1"),
        (
            ToolCall(id="c1", name="read_file", arguments={"path": "a", "startLine": 10**5000}),
            "startLine must be from 1",
        ),
        (call("read_file", path="a", startLine=True), "startLine must be integer"),
        (call("read_file", path="a", lines=1001), "lines must be from 1 to 1000"),
        (call("read_file", path="a", depth=1), "depth is unknown"),
        (call("bash", command="true", timeoutMs=600_001), "timeoutMs must be from 1 to 600000"),
        (call("bash", command="a\0b"), "cannot start bash"),
        (call("bash", command="\ud800"), "cannot start bash"),
        (call("write_file", path="a", content="\ud800", expectedHash=None), "UTF-8"),
        (call("write_file", path="a"), "content is missing; expectedHash is missing"),
        (call("edit_file", path="a", expectedHash="", oldText="\udc00", newText=""), "UTF-8"),
        (call("read_file", path="\ud800"), "no file name"),
        (call("read_file", path="a\0"), "NUL"),
        (call("read_file", path="x" * 5000), "too long"),
    ],
)
async def test_wrong_call_is_answered_with_an_error(work: Work, wrong: ToolCall, says: str) -> None:
    worked = await work([Answer(calls=(wrong,)), Answer(text="done")])

    assert worked.done.stop == "completed"
    assert [answer.is_error for answer in worked.answers] == [True]
    assert says in worked.answers[0].text
    assert [use.is_error for use in worked.done.tools] == [True]
    worked.answers[0].text.encode()


@pytest.mark.parametrize("name", ["", "a b", "x" * 300, "\ud800", "tool.v2"])
async def test_call_goes_back_in_a_form_that_every_endpoint_takes(work: Work, name: str) -> None:
    worked = await work([Answer(calls=(ToolCall(id="c1", name=name, arguments=None, raw="{"),)), Answer()])

    turn = worked.requests[-1].messages[1]
    assert isinstance(turn, AssistantTurn)
    assert turn.calls[0].name.replace("_", "").replace("-", "").isalnum() or turn.calls[0].name == "_"
    assert len(turn.calls[0].name) <= 64
    assert (turn.calls[0].arguments, turn.calls[0].raw) == ({}, "{}")
    assert worked.answers[0].name == turn.calls[0].name
    assert worked.done.tools[0].name == name


async def test_id_used_twice_in_a_turn_gets_a_call_run_once(work: Work, workspace: Path) -> None:
    calls = (call("bash", command="echo x >> log"), call("bash", command="echo x >> log"))
    worked = await work([Answer(calls=calls), Answer()])

    assert (workspace / "log").read_text() == "x\n"
    assert [(answer.call_id, answer.is_error) for answer in worked.answers] == [("c1", False), ("c1-2", True)]
    turn = worked.requests[-1].messages[1]
    assert isinstance(turn, AssistantTurn)
    assert [one.id for one in turn.calls] == ["c1", "c1-2"]
    assert worked.incidents == ["usage_unreported", "duplicate_tool_call_id"]


async def test_id_of_an_earlier_turn_is_renamed_and_its_call_run(work: Work, workspace: Path) -> None:
    worked = await work([Answer(calls=(call("bash", command="echo x >> log"),))] * 3 + [Answer()])

    assert (workspace / "log").read_text() == "x\nx\nx\n"
    assert [answer.call_id for answer in worked.answers] == ["c1", "c1-2", "c1-3"]
    assert worked.incidents.count("duplicate_tool_call_id") == 2


async def test_calls_without_ids_get_ids(work: Work) -> None:
    worked = await work([Answer(calls=(call("list_files", id=""), call("list_files", id=""))), Answer()])

    assert [answer.is_error for answer in worked.answers] == [False, False]
    assert len({answer.call_id for answer in worked.answers} - {""}) == 2


async def test_calls_are_run_and_answered_in_order(work: Work) -> None:
    calls = [call("bash", id="b0", command="echo 0 > n")]
    for number in range(1, 4):
        calls += [call("read_file", id=f"r{number}{turn}", path="n") for turn in range(5)]
        calls += [call("bash", id=f"b{number}", command=f"echo {number} > n")]
    worked = await work([Answer(calls=tuple(calls)), Answer()])

    assert [answer.call_id for answer in worked.answers] == [one.id for one in calls]
    seen = [answer.text.split('"1: ')[1][0] for answer in worked.answers if answer.name == "read_file"]
    assert seen == ["0"] * 5 + ["1"] * 5 + ["2"] * 5


async def test_long_output_is_cut_for_the_model_and_kept_for_the_record(work: Work) -> None:
    worked = await work([Answer(calls=(call("bash", command="head -c 32000 /dev/zero"),)), Answer()])

    recorded = next(event for event in worked.events if isinstance(event, ToolCompleted))
    assert len(worked.answers[0].text) < 40_100
    assert "tool output cut after 40000 of" in worked.answers[0].text[-100:]
    assert len(recorded.output) > 190_000  # every NUL takes six characters in JSON


# --- policy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "full", "ask"])
async def test_tool_that_is_not_granted_is_neither_offered_nor_run(
    work: Work, workspace: Path, mode: Literal["ask", "auto", "full"]
) -> None:
    worked = await work(
        [Answer(calls=(call("write_file", path="a", content="x", expectedHash=None),), usage=used(1)), Answer()],
        policy=Policy(mode=mode, granted=frozenset({"read", "process"})),
    )

    assert [tool.name for tool in worked.requests[0].tools] == ["read_file", "list_files", "search_text", "bash"]
    assert worked.answers[0].text == "Capability denied: write"
    assert "approval_denied" not in worked.incidents
    assert not (workspace / "a").exists()


async def test_call_that_needs_approval_is_offered_and_denied(work: Work, workspace: Path) -> None:
    worked = await work(
        [Answer(calls=(call("bash", command="touch a"),), usage=used(1)), Answer(usage=used(1))],
        policy=Policy(mode="ask", granted=frozenset({"read"}), askable=frozenset({"process"})),
    )

    assert [tool.name for tool in worked.requests[0].tools] == ["read_file", "list_files", "search_text", "bash"]
    assert worked.answers[0].text.startswith("Capability denied: process")
    assert worked.incidents == ["approval_denied"]
    assert not (workspace / "a").exists()


# --- what is told of the work -------------------------------------------------------------------------------------


async def test_usage_is_summed_where_every_turn_reported_it(work: Work) -> None:
    worked = await work(
        [
            Answer(calls=reads(1), usage=used(10, 1, cached=4, reasoning=2)),
            Answer(usage=used(20, 2, cached=None, reasoning=3)),
        ]
    )

    assert worked.done.usage == Usage(input=30, output=3, reasoning=5)
    assert worked.done.cached_partial


async def test_zero_is_a_report(work: Work) -> None:
    worked = await work([Answer(usage=used(0, 0, cached=0))])

    assert worked.done.usage == Usage(input=0, output=0, cached=0)
    assert not worked.done.cached_partial


@pytest.mark.parametrize("event", [WorkStarted, ToolStarted, ToolCompleted])
async def test_failing_record_stops_the_work_with_its_own_error(
    workspace: Path, event: type[ToolCompleted | ToolStarted | WorkStarted]
) -> None:
    async def ask(request: Request) -> Answer:
        return Answer(calls=reads(3))

    def note(noted: Event) -> None:
        if isinstance(noted, event):
            raise StoreFailed("runs.db", "disk full")

    task = make_assignment(workspace)
    with pytest.raises(StoreFailed):
        await BuiltinAgent().work(task, ask, note)


@pytest.mark.parametrize("calls", [0, 1])
async def test_workspace_is_put_on_the_disk_only_for_a_tool(tmp_path: Path, calls: int) -> None:
    workspace = tmp_path / "later"
    answers = iter([*([Answer(calls=reads(1))] * calls), Answer(text="done")])

    async def ask(request: Request) -> Answer:
        return next(answers)

    task = make_assignment(workspace, max_turns=3, materialise=workspace.mkdir)
    assert (await BuiltinAgent().work(task, ask, lambda _: None)).stop == "completed"
    assert workspace.exists() == bool(calls)


def test_the_document_lists_every_tool_with_its_effect() -> None:
    page = (Path(__file__).parents[3] / "docs" / "the-agent.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert rows == {tool.name: tool.effect for tool in TOOLS}
