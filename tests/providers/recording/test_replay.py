"""Recording a provider and playing it back, run by run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import (
    AgentSettings,
    Answer,
    Ask,
    Assignment,
    Done,
    Origin,
    Policy,
    Request,
    Responded,
    TextDelta,
    ToolAnswer,
    ToolCall,
    UserText,
)
from providers.errors import ProviderError
from providers.recording.cassette import Cassette, CassetteHeader, build_documents, decode_cassette, encode_cassette
from providers.recording.divergence import NotRecorded, ReplayDiverged
from providers.recording.normalization import Normalizer, NormalizeRule, RuleTooSlow, RunPlaces
from providers.recording.recorder import Recorder
from providers.recording.replay import Replay

pytestmark = pytest.mark.anyio


def assignment(number: int = 1, workspace: str = "/tmp/w/1-1", task: str = "t") -> Assignment:
    return Assignment(
        origin=Origin(suite_id="s", case_id=task, repetition=0),
        prompt="p",
        workspace=Path(workspace),
        model="asked",
        policy=Policy(),
        settings=AgentSettings(),
        max_turns=9,
        marker=f"20261130T000000Z-0000000{number}/1/1",
    )


def request(task: Assignment, *texts: str | ToolAnswer, number: int = 1, tries: int = 0) -> Request:
    return Request(
        origin=task.origin,
        model="m",
        instructions="do",
        messages=tuple(UserText(text=text) if isinstance(text, str) else text for text in texts),
        key=f"{task.marker}/{number}",
        tries=tries,
    )


class Answers:
    """A provider that gives these replies, one after the other."""

    name = account = "answers"

    def __init__(self, *replies: Answer | ProviderError) -> None:
        self.replies = list(replies)

    def size(self, request: Request) -> int:
        return 1

    async def answer(self, request: Request, emit: Callable[..., Any]) -> Answer:
        emit(Responded(status=200))
        reply = self.replies.pop(0)
        if isinstance(reply, ProviderError):
            raise reply
        emit(TextDelta(reply.text))
        return reply

    async def aclose(self) -> None:
        pass


class Works:
    """A subject that asks what it is told to and stops."""

    def __init__(self, *requests: Request) -> None:
        self.requests = requests

    async def work(self, task: Assignment, ask: Ask, note: Callable[..., Any]) -> Done:
        for one in self.requests:
            await ask(one)
        return Done(stop="completed")

    def so_far(self, reason: Any) -> Done:
        return Done(stop="budget", reason=reason)


async def recorded(
    task: Assignment, requests: list[Request], replies: list[Answer], rules: tuple[NormalizeRule, ...] = ()
) -> Cassette:
    """The cassette of a run, through its bytes."""
    recorder = Recorder(Answers(*replies), lambda _task: rules)

    async def ask(request: Request) -> Answer:
        return await recorder.answer(request, lambda _item: None)

    await recorder.wrap_subjects(lambda: Works(*requests))().work(task, ask, lambda _event: None)
    tape = recorder.recordings[task.marker]
    assert tape.whole
    header = CassetteHeader(
        suite_id="s", suite_version="1", task_id="t", config_hash="", model="m", effects=(), rules=tuple(rules)
    )
    return decode_cassette(
        encode_cassette(list(build_documents(Cassette(header=header, calls=tuple(tape.calls))))), name="t"
    )


async def replayed(
    cassette: Cassette, task: Assignment, requests: list[Request], rules: tuple[NormalizeRule, ...] = ()
) -> list[Answer]:
    replay = Replay(lambda _task, _repetition: cassette, lambda _task: rules)
    answers: list[Answer] = []

    async def ask(request: Request) -> Answer:
        answers.append(await replay.answer(request, lambda _item: None))
        return answers[-1]

    await replay.wrap_subjects(lambda: Works(*requests))().work(task, ask, lambda _event: None)
    return answers


async def test_identical_requests_are_answered_in_their_order() -> None:
    task = assignment()
    asked = [request(task, "same", number=n) for n in (1, 2, 3)]
    cassette = await recorded(task, asked, [Answer(text=text) for text in "ABC"])
    assert [answer.text for answer in await replayed(cassette, task, asked)] == ["A", "B", "C"]


async def test_a_call_too_many_diverges() -> None:
    task = assignment()
    asked = [request(task, "same", number=n) for n in (1, 2)]
    cassette = await recorded(task, asked[:1], [Answer(text="A")])
    with pytest.raises(ReplayDiverged) as caught:
        await replayed(cassette, task, asked)
    assert (caught.value.divergence.call, caught.value.divergence.field) == (2, "calls")


async def test_a_call_that_is_never_made_diverges() -> None:
    task = assignment()
    asked = [request(task, "same", number=n) for n in (1, 2)]
    cassette = await recorded(task, asked, [Answer(text="A"), Answer(text="B")])
    with pytest.raises(ReplayDiverged, match="calls"):
        await replayed(cassette, task, asked[:1])


async def test_another_tool_result_is_named_with_both_excerpts() -> None:
    task = assignment()
    before, after = (request(task, "p", ToolAnswer(call_id="1", name="a", text=text)) for text in ("3 left", "4 left"))
    cassette = await recorded(task, [before], [Answer(text="A")])
    with pytest.raises(ReplayDiverged) as caught:
        await replayed(cassette, task, [after])
    assert str(caught.value) == ('task t, call 1: messages[1].tool.result\n  recorded: "3 left"\n  asked:    "4 left"')
    assert not caught.value.retryable


async def test_places_and_names_of_a_run_do_not_matter_and_are_put_back() -> None:
    first, second = assignment(1, "/tmp/w/1-1"), assignment(2, "/tmp/other/1-1")
    call = ToolCall(id="x", name="bash", arguments={"command": "ls /tmp/w/1-1/a"}, raw='{"command":"ls /tmp/w/1-1/a"}')
    says = "in /tmp/w/1-1 as 20261130T000000Z-00000001"
    cassette = await recorded(first, [request(first, says)], [Answer(text=says, calls=(call,))])
    there = "in /tmp/other/1-1 as 20261130T000000Z-00000002"
    (answer,) = await replayed(cassette, second, [request(second, there)])
    assert answer.text == there
    assert answer.calls[0].arguments == {"command": "ls /tmp/other/1-1/a"}


async def test_of_a_request_sent_again_the_last_reply_is_kept() -> None:
    task = assignment()
    fault = ProviderError(kind="overloaded", message="busy", retryable=True)
    recorder = Recorder(Answers(fault, Answer(text="A")), lambda _task: ())
    recorder.begin_run(task)
    with pytest.raises(ProviderError):
        await recorder.answer(request(task, "p"), lambda _item: None)
    await recorder.answer(request(task, "p", tries=1), lambda _item: None)
    (call,) = recorder.recordings[task.marker].calls
    assert call.reply == Answer(text="A")


async def test_a_recorded_error_is_raised_again_and_not_tried_again() -> None:
    task = assignment()
    fault = ProviderError(kind="overloaded", message="busy", retryable=True, status=503)
    recorder = Recorder(Answers(fault), lambda _task: ())
    recorder.begin_run(task)
    with pytest.raises(ProviderError):
        await recorder.answer(request(task, "p"), lambda _item: None)
    header = CassetteHeader(suite_id="s", suite_version="1", task_id="t", config_hash="", model="m", effects=())
    cassette = Cassette(header=header, calls=tuple(recorder.recordings[task.marker].calls))
    with pytest.raises(ProviderError) as caught:
        await replayed(
            decode_cassette(encode_cassette(list(build_documents(cassette))), name="t"), task, [request(task, "p")]
        )
    assert (caught.value.kind, caught.value.status, caught.value.retryable) == ("overloaded", 503, False)


async def test_a_work_that_is_cut_off_leaves_no_whole_tape() -> None:
    task = assignment()
    recorder = Recorder(Answers(Answer(text="A")), lambda _task: ())
    recorder.begin_run(task)
    await recorder.answer(request(task, "p"), lambda _item: None)
    assert not recorder.recordings[task.marker].whole


async def test_a_task_that_was_not_recorded_is_told_so() -> None:
    def find(task: str, _repetition: int) -> None:
        raise NotRecorded(task, "there is no cassette")

    with pytest.raises(NotRecorded, match="task t: not recorded: there is no cassette"):
        Replay(find, lambda _task: ()).begin_run(assignment())


@given(st.lists(st.sampled_from(["/tmp/w/1-1", "20261130T000000Z-00000001", "/1/1", ".home", "a", " ", "<", ">"])))
def test_hiding_twice_is_hiding_once_and_showing_undoes_it(pieces: list[str]) -> None:
    places, text = RunPlaces.from_assignment(assignment()), "".join(pieces)
    hidden = places.hide_places(text)
    assert places.hide_places(hidden) == hidden
    assert "/tmp/w/1-1" not in hidden
    assert places.restore_places(hidden) == text


RULE = (NormalizeRule(pattern=r"\d\d:\d\d", replace=r"<\1>"),)


async def test_what_a_rule_matches_is_compared_as_its_literal_replacement() -> None:
    task = assignment()
    cassette = await recorded(task, [request(task, "at 10:15")], [Answer(text="A")], RULE)
    assert cassette.calls[0].request["messages"] == [{"user": {"text": r"at <\1>"}}]
    await replayed(cassette, task, [request(task, "at 11:20")], RULE)
    with pytest.raises(ReplayDiverged):
        await replayed(cassette, task, [request(task, "by 11:20")], RULE)


async def test_a_rule_that_was_added_later_holds_for_the_recording_too() -> None:
    task = assignment()
    cassette = await recorded(task, [request(task, "at 10:15")], [Answer(text="A")])
    await replayed(cassette, task, [request(task, "at 11:20")], RULE)


async def test_a_rule_that_does_not_give_the_same_twice_is_applied_once() -> None:
    task, doubling = assignment(), (NormalizeRule(pattern="a", replace="aa"),)
    cassette = await recorded(task, [request(task, "a")], [Answer(text="A")], doubling)
    await replayed(cassette, task, [request(task, "a")], doubling)


async def test_a_rule_that_takes_too_long_is_given_up() -> None:
    normalizer = Normalizer(RunPlaces(()), (NormalizeRule(pattern=r"(?:a|a?b?)*c", replace=""),))
    with pytest.raises(RuleTooSlow, match="took more than 1 s"):
        normalizer.normalize_value("ab" * 40)
