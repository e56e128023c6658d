import json
import signal
import subprocess
import sys
import time  # noqa: TID251 - a test may look at a clock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import (
    Answer,
    AssistantTurn,
    Emitted,
    Message,
    Origin,
    ReasoningDelta,
    Request,
    Responded,
    TextDelta,
    ToolAnswer,
    ToolSpec,
    UserText,
)
from providers.errors import ProviderError
from providers.registry import ProviderOptions, find_provider
from providers.scripted.script import ScriptedAnswer, read_scripts
from providers.scripted.scripted import ScriptedProvider, open_provider, prepare_answer
from providers.usage import Usage
from store.errors import UsageError

pytestmark = pytest.mark.anyio


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., ScriptedProvider]:
    """Write plays as the script of task `t` and open the provider on them."""

    def opened(*plays: list[dict[str, Any]]) -> ScriptedProvider:
        document = {"format": "evalctl.script/1", "plays": [{"answers": list(answers)} for answers in plays]}
        (tmp_path / "scripts").mkdir(exist_ok=True)
        (tmp_path / "scripts" / "t.json").write_text(json.dumps(document))
        return open_provider(ProviderOptions(suite_root=tmp_path))

    return opened


def request(
    *messages: AssistantTurn | ToolAnswer | UserText,
    repetition: int = 0,
    task: str = "t",
    tries: int = 0,
    key: str = "s-00000000/4/1/1",
    **changed: Any,
) -> Request:
    return Request(
        origin=Origin(suite_id="s", case_id=task, repetition=repetition),
        model="asked",
        instructions="",
        messages=(UserText(text="do it"), *messages),
        tries=tries,
        key=key,
        **changed,
    )


async def ask(
    provider: ScriptedProvider, *messages: AssistantTurn | ToolAnswer | UserText, **how: Any
) -> tuple[Answer, list[Emitted]]:
    seen: list[Emitted] = []
    answer = await provider.answer(request(*messages, **how), seen.append)
    return answer, seen


TURN = AssistantTurn(text="")


async def test_an_answer_has_all_that_the_script_says(play: Callable[..., ScriptedProvider]) -> None:
    provider = play(
        [
            {
                "text": "abcdef",
                "reasoning": "hm",
                "toolCalls": [{"id": "c", "name": "read_file", "arguments": {"path": "a"}}],
                "usage": {"input": 10, "output": 5, "cached": 4, "cacheWrite": 3, "reasoning": 2},
                "model": "answering",
                "chunks": 3,
            }
        ]
    )
    answer, seen = await ask(provider)
    assert (answer.text, answer.reasoning, answer.model, answer.finish) == ("abcdef", "hm", "answering", "tool_calls")
    assert answer.usage == Usage(input=10, output=5, cached=4, cache_write=3, reasoning=2)
    assert answer.notes == ()
    (call,) = answer.calls
    assert (call.id, call.name, call.arguments, call.problem) == ("c", "read_file", {"path": "a"}, None)
    assert json.loads(call.raw) == {"path": "a"}
    assert seen == [
        Responded(status=200, provider_request_id="scripted-0"),
        ReasoningDelta("hm"),
        TextDelta("ab"),
        TextDelta("cd"),
        TextDelta("ef"),
    ]


async def test_what_a_script_leaves_out_has_its_default(play: Callable[..., ScriptedProvider]) -> None:
    answer, seen = await ask(play([{"text": "done"}]))
    assert (answer.usage, answer.finish, answer.model, answer.calls) == (None, "stop", "asked", ())
    assert answer.notes == ("usage_unreported",)
    assert seen[1:] == [TextDelta("done")]


async def test_usage_may_be_null_and_finish_may_be_any(play: Callable[..., ScriptedProvider]) -> None:
    answer, _ = await ask(play([{"usage": None, "finish": "length"}]))
    assert (answer.usage, answer.finish) == (None, "length")


async def test_the_place_in_the_conversation_alone_decides_which_answer_comes(
    play: Callable[..., ScriptedProvider],
) -> None:
    provider = play([{"text": "one"}, {"text": "two"}])
    told = ToolAnswer(call_id="c", name="n", text="")
    assert (await ask(provider, TURN, told))[0].text == "two"
    assert (await ask(provider))[0].text == "one"
    assert (await ask(provider, TURN, UserText(text="go on")))[0].text == "two"


async def test_turns_that_a_summary_has_taken_the_place_of_count_on(play: Callable[..., ScriptedProvider]) -> None:
    provider = play([{"text": "first"}, {"text": "second"}, {"text": "third"}])

    assert (await provider.answer(request(turn=2), lambda _: None)).text == "third"
    assert (await provider.answer(request(AssistantTurn(text=""), turn=0), lambda _: None)).text == "first"


async def test_summaries_have_answers_of_their_own(tmp_path: Path) -> None:
    document = {
        "format": "evalctl.script/1",
        "plays": [{"answers": [{"text": "turn"}], "compaction": [{"text": "one"}, {"text": "two"}]}],
    }
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "t.json").write_text(json.dumps(document))
    provider = open_provider(ProviderOptions(suite_root=tmp_path))
    seen: list[Emitted] = []
    answers = [await provider.answer(request(purpose="compaction", turn=n), seen.append) for n in range(3)]

    assert [answer.text for answer in answers] == ["one", "two", "Script ended."]
    assert Responded(status=200, provider_request_id="scripted-compaction-0") in seen


async def test_past_its_last_answer_a_script_ends_the_conversation(play: Callable[..., ScriptedProvider]) -> None:
    answer, _ = await ask(play([{"text": "one"}], []), TURN)
    assert (answer.text, answer.calls, answer.finish) == ("Script ended.", (), "stop")
    assert (await ask(play([]), repetition=3))[0].text == "Script ended."


async def test_repetitions_take_turns_over_the_plays(play: Callable[..., ScriptedProvider]) -> None:
    provider = play([{"text": "a"}], [{"text": "b"}])
    assert [(await ask(provider, repetition=n))[0].text for n in range(4)] == ["a", "b", "a", "b"]


async def test_a_task_without_a_script_fails_for_good_and_names_the_file(
    play: Callable[..., ScriptedProvider], tmp_path: Path
) -> None:
    with pytest.raises(ProviderError) as caught:
        await ask(play([]), task="other")
    assert (caught.value.kind, caught.value.retryable) == ("not_found", False)
    assert str(tmp_path / "scripts" / "other.json") in str(caught.value)


# --- arguments --------------------------------------------------------------------------------------------------


async def test_arguments_refer_to_results_of_earlier_calls(play: Callable[..., ScriptedProvider]) -> None:
    arguments = {
        "expectedHash": "${read-1.sha256}",
        "list": [{"deep": "${read-1.size}"}],
        "missing": "${read-2.sha256}",
        "noField": "${read-1.nothing}",
        "inside": "a ${read-1.sha256} b",
        "number": 3,
    }
    provider = play([{}, {"toolCalls": [{"id": "e", "name": "edit_file", "arguments": arguments}]}])
    results: list[Message] = [
        TURN,
        ToolAnswer(call_id="read-1", name="read_file", text='{"sha256": "abc", "size": 7}'),
    ]
    (call,) = (await ask(provider, *results))[0].calls
    assert call.arguments == {**arguments, "expectedHash": "abc", "list": [{"deep": 7}]}
    assert json.loads(call.raw) == call.arguments


@pytest.mark.parametrize("text", ["no JSON", "[1]", '"sha256"', "{}"])
async def test_a_reference_into_something_else_stays_as_it_is_written(
    play: Callable[..., ScriptedProvider], text: str
) -> None:
    provider = play([{"toolCalls": [{"id": "e", "name": "n", "arguments": {"a": "${r.sha256}"}}]}])
    (call,) = (await ask(provider, ToolAnswer(call_id="r", name="n", text=text)))[0].calls
    assert call.arguments == {"a": "${r.sha256}"}


@pytest.mark.parametrize(
    ("raw", "arguments", "problem"),
    [
        ('{"path": "a"', None, "arguments are no JSON: "),
        ("[1]", None, "arguments are no JSON object"),
        ("", None, "arguments are no JSON: "),
        ("[" * 100_000, None, "arguments are no JSON: "),
        ('{"path": "a"}', {"path": "a"}, ""),
    ],
)
async def test_arguments_given_as_text_are_sent_as_they_are(
    play: Callable[..., ScriptedProvider], raw: str, arguments: dict[str, Any] | None, problem: str
) -> None:
    (call,) = (await ask(play([{"toolCalls": [{"id": "c", "name": "n", "arguments": raw}]}])))[0].calls
    assert (call.raw, call.arguments) == (raw, arguments)
    assert (call.problem or "").startswith(problem)


async def test_hostile_text_is_played_unharmed(play: Callable[..., ScriptedProvider]) -> None:
    text = "\x00\x1b[31m\ud800 end"
    answer, seen = await ask(play([{"text": text, "chunks": 100}]))
    assert answer.text == text
    assert "".join(delta.text for delta in seen[1:]) == text


# --- faults -----------------------------------------------------------------------------------------------------


async def test_each_sending_meets_its_fault_and_later_ones_succeed(play: Callable[..., ScriptedProvider]) -> None:
    provider = play(
        [
            {
                "text": "abcd",
                "chunks": 4,
                "faults": [
                    {"kind": "rate_limit", "status": 429, "retryAfterMs": 1500},
                    {"kind": "truncated", "afterChunks": 2, "usage": {"input": 9}, "message": "cut"},
                    {"kind": "auth", "status": 401},
                ],
            }
        ]
    )
    seen: list[Emitted] = []
    with pytest.raises(ProviderError) as caught:
        await provider.answer(request(), seen.append)
    error = caught.value
    assert (error.kind, error.status, error.retry_after_s, error.retryable) == ("rate_limit", 429, 1.5, True)
    assert (error.mid_stream, error.text, error.usage) == (False, "", None)
    assert seen == [Responded(status=429, provider_request_id="scripted-0")]

    seen.clear()
    with pytest.raises(ProviderError) as caught:
        await provider.answer(request(tries=1), seen.append)
    error = caught.value
    assert (error.kind, error.message, error.mid_stream, error.text) == ("truncated", "cut", True, "ab")
    assert error.usage == Usage(input=9)
    assert seen == [Responded(status=200, provider_request_id="scripted-0"), TextDelta("a"), TextDelta("b")]

    with pytest.raises(ProviderError) as caught:
        await provider.answer(request(tries=2), seen.append)
    assert caught.value.retryable is False

    for tries in (3, 4):
        assert (await ask(provider, tries=tries))[0].text == "abcd"


async def test_a_fault_before_any_status_emits_nothing(play: Callable[..., ScriptedProvider]) -> None:
    seen: list[Emitted] = []
    with pytest.raises(ProviderError, match="network"):
        await play([{"faults": [{"kind": "network"}]}]).answer(request(), seen.append)
    assert seen == []


async def test_a_fault_after_more_deltas_than_there_are_comes_at_the_end(play: Callable[..., ScriptedProvider]) -> None:
    with pytest.raises(ProviderError) as caught:
        await ask(play([{"text": "ab", "faults": [{"kind": "truncated", "afterChunks": 50}]}]))
    assert caught.value.text == "ab"


# --- time and signals -------------------------------------------------------------------------------------------


async def test_latency_passes_before_the_answer_is_whole_and_can_be_cancelled(
    play: Callable[..., ScriptedProvider],
) -> None:
    provider = play([{"text": "abcd", "chunks": 4, "latencyMs": 40}, {"text": "x", "latencyMs": 3_600_000}])
    started = time.monotonic()
    await ask(provider)
    assert time.monotonic() - started >= 0.04
    with anyio.move_on_after(0.01) as scope:
        await ask(provider, TURN)
    assert scope.cancelled_caught


CRASHING = """
import sys, anyio
from pathlib import Path
from providers.base import Origin, Request, TextDelta, UserText
from providers.registry import ProviderOptions
from providers.scripted.scripted import open_provider

def emit(event):
    if isinstance(event, TextDelta):
        print(event.text, flush=True)

request = Request(
    origin=Origin(suite_id="s", case_id="t", repetition=0), model="m", instructions="",
    messages=(UserText(text=""),), key=sys.argv[2], tries=int(sys.argv[3]),
)
anyio.run(open_provider(ProviderOptions(suite_root=Path(sys.argv[1]))).answer, request, emit)
"""


@pytest.mark.parametrize(
    ("key", "tries", "ending"),
    [
        ("s-00000000/4/2/1", 0, (-signal.SIGKILL, "a\nb\n")),
        ("s-00000000/4/1/1", 0, (0, "a\nb\nc\nd\n")),
        ("s-00000000/4/2/1", 1, (0, "a\nb\nc\nd\n")),
        ("", 0, (0, "a\nb\nc\nd\n")),
    ],
)
def test_a_signal_hits_the_own_process_at_its_delta_in_its_attempt_only(
    play: Callable[..., ScriptedProvider], tmp_path: Path, key: str, tries: int, ending: tuple[int, str]
) -> None:
    play([{"text": "abcd", "chunks": 4, "signal": {"name": "SIGKILL", "attempt": 2, "afterChunks": 2}}])
    ran = subprocess.run(
        [sys.executable, "-c", CRASHING, str(tmp_path), key, str(tries)], check=False, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == ending, ran.stderr


def test_an_answer_without_latency_costs_little(play: Callable[..., ScriptedProvider]) -> None:
    provider = play([{"toolCalls": [{"id": "c", "name": "read_file", "arguments": {"path": "a"}}], "usage": {}}])

    async def many() -> None:
        asked = request()
        for _ in range(2000):
            await provider.answer(asked, lambda _: None)

    started = time.process_time()
    anyio.run(many)
    assert (time.process_time() - started) / 2000 < 0.0005  # tens of microseconds on a quiet machine


# --- size, name, format -----------------------------------------------------------------------------------------


async def test_equal_requests_have_equal_sizes_and_longer_ones_larger(play: Callable[..., ScriptedProvider]) -> None:
    provider = play([])
    tools = (ToolSpec(name="n", description="d", input_schema={"type": "object"}),)
    copied = tuple(attrs.evolve(tool) for tool in tools)
    plain = provider.size(request(tools=tools))
    assert provider.size(request(tools=copied)) == plain
    assert provider.size(request()) < plain
    assert provider.size(request(TURN, ToolAnswer(call_id="c", name="n", text="é" * 10), tools=tools)) == plain + 20
    assert (provider.name, provider.account) == ("scripted", "scripted")
    await provider.aclose()


def test_the_registry_knows_it() -> None:
    assert find_provider("scripted") is open_provider


@given(text=st.text(), chunks=st.integers(1, 50))
def test_the_deltas_of_an_answer_make_up_its_text_and_none_is_empty(text: str, chunks: int) -> None:
    pieces = prepare_answer(ScriptedAnswer(text=text, chunks=chunks)).pieces
    assert "".join(pieces) == text
    assert all(pieces)
    assert len(pieces) == min(chunks, len(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '{"format": "evalctl.script/2", "plays": []}',
            "1:2: format: expected 'evalctl.script/1', got 'evalctl.script/2'",
        ),
        ('{"format": "evalctl.script/1", "plays": []}', "1:32: plays: must not be empty"),
        ('{"plays": [{}]}', "plays[0]: missing required field 'answers'"),
        ("{", '1:2: expected a "key"'),
    ],
)
def test_a_malformed_script_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "scripts").mkdir()
    file = tmp_path / "scripts" / "t.json"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        open_provider(ProviderOptions(suite_root=tmp_path))
    assert str(caught.value).startswith(f"{file}:")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"txt": ""}, "plays[0].answers[0].txt: unknown field 'txt' (did you mean 'text'?)"),
        ({"chunks": 0}, "plays[0].answers[0].chunks: must be >= 1: 0"),
        ({"latencyMs": -1}, "plays[0].answers[0].latencyMs: must be >= 0: -1"),
        ({"latencyMs": "1"}, "plays[0].answers[0].latencyMs: expected an integer, got '1'"),
        ({"finish": "end"}, "plays[0].answers[0].finish: expected one of 'stop'"),
        ({"usage": {"in": 3}}, "plays[0].answers[0].usage.in: unknown field 'in'"),
        ({"faults": [{"kind": "netwrk"}]}, "(did you mean 'network'?)"),
        ({"faults": [{"kind": "network", "afterChunks": -1}]}, "faults[0].afterChunks: must be >= 0: -1"),
        ({"signal": {"name": "SIGWINCH"}}, "signal.name: expected one of 'SIGKILL'"),
        (
            {"toolCalls": [{"id": "c", "name": "n", "arguments": 3}]},
            "toolCalls[0].arguments: must be an object, or a string",
        ),
    ],
)
def test_an_answer_says_what_it_can(play: Callable[..., ScriptedProvider], answer: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        play([answer])
    assert told in str(caught.value)


def test_all_findings_of_all_scripts_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.json").write_text('{"format": "x", "plays": [{"answers": [{"chunks": 0}]}]}')
    (tmp_path / "scripts" / "b.json").write_text("[")
    with pytest.raises(UsageError) as caught:
        read_scripts(tmp_path)
    assert len(str(caught.value).splitlines()) == 3


def test_a_script_that_is_a_link_out_of_the_suite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "suite" / "scripts").mkdir(parents=True)
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "suite" / "scripts" / "t.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(UsageError, match="symbolic link"):
        read_scripts(tmp_path / "suite")


def test_a_suite_without_scripts_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found no scripts"):
        open_provider(ProviderOptions(suite_root=tmp_path))
    with pytest.raises(UsageError, match="needs a suite"):
        open_provider(ProviderOptions())


async def test_a_flows_nodes_play_scripts_of_their_own_and_else_their_cases(tmp_path: Path) -> None:
    for place in ("gate/one", "gate/one/judge"):
        file = tmp_path / "scripts" / f"{place}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        script = {"format": "evalctl.script/1", "plays": [{"answers": [{"text": place}]}]}
        file.write_text(json.dumps(script), encoding="utf-8")
    provider = open_provider(ProviderOptions(suite_root=tmp_path))

    async def said(node: str) -> str:
        origin = Origin(suite_id="s", case_id="gate/one", repetition=0, node=node)
        return (await provider.answer(attrs.evolve(request(), origin=origin), lambda _item: None)).text

    assert await said("judge") == "gate/one/judge"
    assert await said("other") == "gate/one"


async def test_a_script_plays_what_it_holds_for_the_variant_and_else_its_plays(tmp_path: Path) -> None:
    def plays(text: str) -> list[dict[str, Any]]:
        return [{"answers": [{"text": text}]}]

    document = {"format": "evalctl.script/1", "plays": plays("usual"), "variants": {"worse": plays("worse")}}
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "t.json").write_text(json.dumps(document))
    provider = open_provider(ProviderOptions(suite_root=tmp_path))

    async def said(variant: str) -> str:
        origin = Origin(suite_id="s", case_id="t", repetition=0, variant=variant)
        return (await provider.answer(attrs.evolve(request(), origin=origin), lambda _: None)).text

    assert [await said(name) for name in ("", "worse", "better")] == ["usual", "worse", "usual"]
