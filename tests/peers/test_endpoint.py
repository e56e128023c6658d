"""The witness itself: what it answers, and that its books are true."""

import http.client
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.peers.driver import Endpoint, running_endpoint, until

TOOL = {"name": "read_file", "arguments": {"path": "a.py"}}
EDIT = {"name": "edit_file", "arguments": {"path": "a.py", "expectedHash": "${sha256}", "oldText": "1", "newText": "2"}}


def ask(
    endpoint: Endpoint, text: str, *, key: str = "sweep/0/1/1", stream: bool = True, more: tuple[Any, ...] = ()
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}, *more]}
    body["stream_options"] = {"include_usage": True}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Idempotency-Key": key})
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read().decode("utf-8")
    finally:
        connection.close()


def events(body: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def said(chunks: list[Any]) -> str:
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])


def called(chunks: list[Any]) -> Any:
    pieces = [call for c in chunks if c["choices"] for call in c["choices"][0]["delta"].get("tool_calls", ())]
    return pieces[0]["function"]["name"], json.loads("".join(piece["function"]["arguments"] for piece in pieces))


def test_streams_a_text_in_as_many_pieces_as_asked_with_usage_last(endpoint: Endpoint) -> None:
    status, headers, body = ask(endpoint, "hello [[chunks=7]]")
    chunks = events(body)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert said(chunks) == "It is done as asked."
    assert sum(bool(c["choices"] and c["choices"][0]["delta"].get("content")) for c in chunks) == 7
    assert chunks[-1]["choices"] == []
    [line] = endpoint.idle()
    assert chunks[-1]["usage"]["prompt_tokens"] == line["input_tokens"]
    assert (line["key"], line["status"], line["gone"], line["seq"]) == ("sweep/0/1/1", 200, False, 1)


def test_answers_whole_when_no_stream_is_asked_for(endpoint: Endpoint) -> None:
    status, headers, body = ask(endpoint, "hello", stream=False)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body)["choices"][0]["message"]["content"] == "It is done as asked."


def test_a_conversation_goes_by_the_number_of_assistant_turns_and_takes_the_hash_from_the_tool_result(
    endpoint: Endpoint,
) -> None:
    endpoint.plan(
        {"match": "fix", "do": {"steps": [{"calls": [TOOL]}, {"calls": [EDIT]}, {"text": "Fixed."}]}},
    )
    turn = {"role": "assistant", "content": ""}
    result = {"role": "tool", "tool_call_id": "call-0-0", "content": json.dumps({"sha256": "ab" * 32})}
    assert called(events(ask(endpoint, "fix it")[2])) == ("read_file", TOOL["arguments"])
    name, arguments = called(events(ask(endpoint, "fix it", more=(turn, result))[2]))
    assert (name, arguments["expectedHash"]) == ("edit_file", "ab" * 32)
    assert said(events(ask(endpoint, "fix it", more=(turn, result, turn, result))[2])) == "Fixed."


def test_a_key_is_refused_as_often_as_planned_and_then_answered(endpoint: Endpoint) -> None:
    words = "hello [[status=429 times=2 retry_after=0.25]]"
    first = ask(endpoint, words, key="s/0/1/1")
    assert (first[0], first[1]["retry-after"]) == (429, "0.25")
    assert [ask(endpoint, words, key="s/0/1/1")[0] for _ in range(2)] == [429, 200]
    assert ask(endpoint, words, key="s/1/1/1")[0] == 429
    assert endpoint.counts()["statuses"] == {"200": 1, "429": 3}


def test_a_stream_can_be_cut_after_some_pieces(endpoint: Endpoint) -> None:
    with pytest.raises(http.client.IncompleteRead) as caught:
        ask(endpoint, "hello [[cut=2]]")
    assert caught.value.partial.count(b'"content":"It') == 1
    assert endpoint.counts()["answered"] == 0


def test_a_held_answer_waits_for_its_release_and_its_place_counts_as_in_flight(endpoint: Endpoint) -> None:
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(ask(endpoint, f"hello [[hold={n}]]")[0])) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    until(lambda: endpoint.counts()["held"] == 3, "three held answers")
    assert endpoint.counts()["in_flight"] == endpoint.counts()["peak"] == 3
    endpoint.release(1)
    until(lambda: len(answers) == 1, "the released answer")
    assert endpoint.counts()["held"] == 2
    endpoint.release()
    for thread in threads:
        thread.join()
    assert answers == [200, 200, 200]


def test_a_held_answer_goes_on_when_its_file_appears(endpoint: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "go"
    thread = threading.Thread(target=ask, args=(endpoint, f"hello [[hold=1 hold_file={file}]]"))
    thread.start()
    until(lambda: endpoint.counts()["held"] == 1, "the held answer")
    file.touch()
    thread.join()
    assert endpoint.counts()["answered"] == 1


def test_a_client_that_goes_away_is_noted(endpoint: Endpoint) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello [[hang]]"}]})
    with socket.create_connection(("127.0.0.1", endpoint.port)) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nIdempotency-Key: s/3/1/1\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body.encode())
        until(lambda: endpoint.counts()["in_flight"] == 1, "the request to arrive")
    [line] = endpoint.idle()
    assert (line["gone"], line["key"]) == (True, "s/3/1/1")


def test_what_was_never_finished_is_in_the_books_too(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with running_endpoint(ledger) as endpoint, socket.create_connection(("127.0.0.1", endpoint.port)) as connection:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello [[hang]]"}]})
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: endpoint.counts()["in_flight"] == 1, "the request to arrive")
        assert endpoint.lines() == []
        assert endpoint.process.stdin is not None
        endpoint.process.stdin.close()
        endpoint.process.wait(30)
        assert [line["gone"] for line in endpoint.lines()] == [True]


def test_answers_depend_on_the_attempt_in_the_key(endpoint: Endpoint) -> None:
    endpoint.plan({"attempt": 1, "do": {"status": 503}})
    assert [ask(endpoint, "hello", key=f"s/0/{attempt}/1")[0] for attempt in (1, 2)] == [503, 200]
