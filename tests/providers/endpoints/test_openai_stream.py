import json
import time  # noqa: TID251 - how long reading takes
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from providers.base import Answer
from providers.endpoints.openai_stream import ChatStream
from providers.errors import ProviderError
from providers.usage import Usage
from tests.providers.endpoints import wire

read = partial(wire.read, ChatStream)


# --- dialects ---------------------------------------------------------------------------------------------------


def sse(*chunks: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk) if not isinstance(chunk, str) else chunk}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(
    *,
    index: int | None = None,
    id: str | None = None,  # noqa: A002 - the wire's own name
    name: str | None = None,
    arguments: str | None = None,
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece = {"index": index, "id": id, "function": function}
    return {key: value for key, value in piece.items() if value is not None}


def answer(*chunks: Any, done: bool = True) -> Answer:
    stream = ChatStream()
    stream.feed(sse(*chunks, done=done))
    return stream.finish_answer()


def failure(*chunks: Any, done: bool = True) -> ProviderError:
    with pytest.raises(ProviderError) as failed:
        answer(*chunks, done=done)
    return failed.value


def calls_of(*pieces: dict[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    got = answer(*(delta(tool_calls=[piece]) for piece in pieces), delta("tool_calls"))
    return [(c.id, c.name, c.arguments) for c in got.calls]


def test_calls_without_an_index_start_with_a_new_id() -> None:
    assert calls_of(
        call(id="a", name="f", arguments='{"x"'),
        call(arguments=":1}"),
        call(id="b", name="g", arguments="{}"),
    ) == [("a", "f", {"x": 1}), ("b", "g", {})]


def test_parallel_calls_that_share_an_index_stay_apart_by_id_and_name() -> None:
    assert calls_of(
        call(index=0, id="a", name="f", arguments="{}"),
        call(index=0, id="b", name="f", arguments='{"y":2}'),
    ) == [("a", "f", {}), ("b", "f", {"y": 2})]


def test_any_number_of_calls_is_read_in_time_in_proportion_to_it() -> None:
    calls = [call(index=n, id=f"c{n}", name="f", arguments="{}") for n in range(20_000)]
    begun = time.process_time()
    got = answer(delta(tool_calls=calls), delta("tool_calls"))
    assert time.process_time() - begun < 4  # looking through all calls for each takes ten seconds
    assert len(got.calls) == 20_000


def test_spaces_before_an_answer_are_not_gathered() -> None:
    stream = ChatStream()
    begun = time.process_time()
    for _ in range(1000):
        stream.feed(b" " * 65_536)
    assert time.process_time() - begun < 5
    stream.feed(b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}')
    assert stream.finish_answer().text == "hi"


def test_id_that_changes_without_a_name_belongs_to_the_same_call() -> None:
    assert calls_of(
        call(index=0, id="a", name="f", arguments='{"x":'),
        call(index=0, id="z", arguments="1}"),
    ) == [("a", "f", {"x": 1})]


def test_arguments_that_come_as_an_object_are_taken() -> None:
    assert calls_of({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}) == [("a", "f", {"x": 1})]


@pytest.mark.parametrize("arguments", ["", "null", " ", None])
def test_missing_arguments_are_an_empty_object(arguments: str | None) -> None:
    assert calls_of(call(index=0, id="a", name="f", arguments=arguments)) == [("a", "f", {})]


def test_call_without_an_id_gets_one() -> None:
    assert calls_of(call(index=0, name="f"), call(index=1, name="g")) == [("call_1", "f", {}), ("call_2", "g", {})]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"a":', "invalid_json"),
        ("[1]", "not_an_object"),
        ('{"a": NaN}', "invalid_json"),
        ("[" * 100_000, "invalid_json"),
        ('{"a": ' + "9" * 5000 + "}", "invalid_json"),
    ],
)
def test_arguments_that_are_no_object_are_kept_raw_with_the_problem(arguments: str, problem: str) -> None:
    got = answer(delta(tool_calls=[call(index=0, id="a", name="f", arguments=arguments)]), delta("tool_calls"))
    assert (got.calls[0].arguments, got.calls[0].problem, got.calls[0].raw) == (None, problem, arguments)


def test_old_function_call_counts_only_without_tool_calls() -> None:
    old = {"name": "f", "arguments": '{"x":1}'}
    got = answer(delta(function_call=old), delta("function_call"))
    assert [(c.name, c.arguments) for c in got.calls] == [("f", {"x": 1})]
    both = answer(
        delta(function_call=old, tool_calls=[call(index=0, id="a", name="f", arguments='{"x":1}')]), delta("stop")
    )
    assert [c.id for c in both.calls] == ["a"]
    assert (both.finish, both.finish_raw) == ("tool_calls", "stop")


def test_reasoning_under_two_names_at_once_is_counted_once() -> None:
    got = answer(delta(reasoning="hm", reasoning_content="hm"), delta("stop", content="ok"))
    assert (got.reasoning, got.text) == ("hm", "ok")


def test_only_reasoning_content_is_marked_to_go_back() -> None:
    assert answer(delta("stop", reasoning_content="hm")).continuation == {"reasoning_field": "reasoning_content"}
    assert answer(delta("stop", reasoning="hm")).continuation is None


def test_refusal_is_a_finish_of_its_own_and_an_empty_one_is_none() -> None:
    assert answer(delta(refusal="I will"), delta("stop", refusal=" not")).refusal == "I will not"
    assert answer(delta("stop", refusal="no")).finish == "refusal"
    assert answer(delta("stop", refusal="", content="x")).finish == "stop"


def test_other_choices_are_not_mixed_in() -> None:
    chunk = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}
    assert answer(chunk, delta("stop")).text == "yes"


def test_finish_without_done_is_a_whole_answer() -> None:
    assert answer(delta("stop", content="x"), done=False).text == "x"


def test_nothing_after_done_counts() -> None:
    stream = ChatStream()
    stream.feed(sse(delta("stop", content="x")) + sse(delta(content="y")))
    stream.feed(sse(delta(content="z")))
    assert stream.finish_answer().text == "x"


@pytest.mark.parametrize("hostile", [[], {}, True, 1e400, -1, "0", "\ud800", None, [[]], {"a": {}}])
@pytest.mark.parametrize(
    "place",
    [
        "choices",
        "usage",
        "model",
        "delta",
        "content",
        "tool_calls",
        "index",
        "finish_reason",
        "function",
        "arguments",
        "type",
    ],
)
def test_values_of_the_wrong_type_never_crash_the_reader(place: str, hostile: Any) -> None:
    tool_call: dict[str, Any] = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    fields: dict[str, Any] = {"content": [{"type": "text", "text": "x"}], "tool_calls": [tool_call]}
    choice: dict[str, Any] = {"index": 0, "delta": fields, "finish_reason": "stop"}
    chunk: dict[str, Any] = {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 1}}
    for holder in (chunk, choice, fields, tool_call, tool_call["function"], fields["content"][0]):
        if place in holder:
            holder[place] = hostile
    read(sse(json.dumps(chunk).replace("Infinity", "1e400")))


# --- errors -----------------------------------------------------------------------------------------------------


def test_error_chunk_followed_by_done_is_no_answer() -> None:
    error = failure(delta(content="half"), {"error": {"message": "boom", "code": 500}})
    assert (error.kind, error.retryable, error.text) == ("server_error", True, "half")


def test_usage_after_an_error_chunk_is_kept() -> None:
    error = failure(
        {"error": {"message": "boom"}}, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    )
    assert error.usage == Usage(input=3, output=1)


def test_flat_error_object_is_an_error() -> None:
    error = failure({"object": "error", "message": "prompt is too long", "code": 400})
    assert error.kind == "context_length"


def test_named_error_event_is_an_error_whatever_its_shape() -> None:
    stream = ChatStream()
    stream.feed(b'event: error\ndata: {"message": "overheated", "type": "overloaded_error"}\n\n')
    with pytest.raises(ProviderError, match="overheated") as failed:
        stream.finish_answer()
    assert failed.value.kind == "overloaded"


def test_chunk_that_is_no_json_fails_the_answer_and_keeps_its_usage() -> None:
    error = failure(delta(content="a"), "{oops", {"choices": [], "usage": {"prompt_tokens": 3}}, delta("stop"))
    assert (error.kind, error.retryable, error.usage) == ("bad_payload", True, Usage(input=3))


def test_finish_error_without_an_error_object_is_a_server_error() -> None:
    assert failure(delta("error", content="x")).kind == "server_error"


def test_page_in_place_of_an_answer_says_what_it_was() -> None:
    stream = ChatStream()
    stream.feed(b"<!doctype html><html><body><h1>Welcome to the portal</h1></body></html>")
    with pytest.raises(ProviderError, match="base URL right") as failed:
        stream.finish_answer()
    assert "Welcome to the portal" in failed.value.message
    assert "<" not in failed.value.message


def test_document_without_choices_is_no_answer() -> None:
    stream = ChatStream()
    stream.feed(b'{"ok": true}')
    with pytest.raises(ProviderError, match="no choices"):
        stream.finish_answer()


def test_empty_body_is_truncated() -> None:
    with pytest.raises(ProviderError) as failed:
        ChatStream().finish_answer()
    assert (failed.value.kind, failed.value.retryable) == ("truncated", True)


def test_key_echoed_in_an_error_chunk_is_masked() -> None:
    stream = ChatStream(secrets=["sk-very-secret-value"])
    stream.feed(sse({"error": {"message": "bad key sk-very-secret-value", "code": 401}}))
    with pytest.raises(ProviderError) as failed:
        stream.finish_answer()
    assert failed.value.kind == "auth"
    assert "very" not in str(failed.value)


def test_broken_connection_after_the_finish_is_a_whole_answer() -> None:
    stream = ChatStream()
    stream.feed(sse(delta("stop", content="x"), done=False))
    broke = ProviderError(kind="truncated", message="reset", retryable=True, mid_stream=True)
    assert stream.finish_broken(broke).text == "x"


def test_broken_connection_before_the_finish_carries_what_came() -> None:
    stream = ChatStream()
    stream.feed(sse(delta(content="x"), done=False))
    broke = ProviderError(kind="truncated", message="reset", retryable=True, mid_stream=True)
    with pytest.raises(ProviderError) as failed:
        stream.finish_broken(broke)
    assert (failed.value.kind, failed.value.text, failed.value.model) == ("truncated", "x", "m")


def test_error_that_was_reported_beats_the_broken_connection_after_it() -> None:
    stream = ChatStream()
    stream.feed(sse({"error": {"message": "tool_use", "code": "tool_use_failed"}}, done=False))
    with pytest.raises(ProviderError) as failed:
        stream.finish_broken(ProviderError(kind="truncated", message="reset", retryable=True))
    assert (failed.value.kind, failed.value.retryable) == ("bad_tool_call", False)


# --- usage ------------------------------------------------------------------------------------------------------


def usage_of(report: dict[str, Any] | None, **chunk: Any) -> tuple[Usage | None, tuple[str, ...]]:
    got = answer({"choices": [], "usage": report, **chunk}, delta("stop"))
    return got.usage, got.notes


def test_missing_usage_is_none_and_noted() -> None:
    assert usage_of(None) == (None, ("usage_unreported",))
    assert usage_of({}) == (None, ("usage_unreported",))


def test_zero_for_a_prompt_that_was_sent_is_not_reported() -> None:
    unreported = (None, ("usage_unreported",))
    assert usage_of({"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": None}) == unreported


@pytest.mark.parametrize("absurd", [-1, "12", 1e12, 10**30, True, 1.5, [], {}])
def test_absurd_number_is_dropped_and_noted_and_the_rest_stays(absurd: Any) -> None:
    assert usage_of({"prompt_tokens": absurd, "completion_tokens": 2}) == (Usage(output=2), ("usage_implausible",))


def test_more_cached_than_input_is_dropped() -> None:
    report = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}}
    assert usage_of(report) == (Usage(input=5, output=2), ("usage_implausible",))


def test_last_usage_wins_and_is_not_added() -> None:
    one = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    two = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    assert answer(one, two, delta("stop")).usage == Usage(input=5, output=2)


def test_cached_tokens_of_llama_cpp_come_from_its_timings() -> None:
    assert usage_of({"prompt_tokens": 5, "completion_tokens": 2}, timings={"cache_n": 4})[0] == Usage(
        input=5, output=2, cached=4
    )


def test_usage_of_groq_is_found_in_its_own_place() -> None:
    got = answer({"choices": [], "x_groq": {"usage": {"prompt_tokens": 5}}}, delta("stop"))
    assert got.usage == Usage(input=5)
