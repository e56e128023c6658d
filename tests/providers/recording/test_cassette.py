"""The format: what goes in comes out, and a file that is not as it was recorded is refused with line and field."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import Answer, ReasoningDelta, Responded, TextDelta
from providers.endpoints.arguments import build_tool_call
from providers.errors import ProviderError
from providers.recording.cassette import (
    MAX_CASSETTE_BYTES,
    Cassette,
    CassetteHeader,
    RecordedCall,
    build_documents,
    decode_cassette,
    encode_cassette,
)
from providers.recording.material import compute_fingerprint
from providers.recording.normalization import NormalizeRule
from providers.usage import Usage
from store.errors import UsageError

HEADER = CassetteHeader(
    suite_id="s", suite_version="1.0.0", task_id="t", config_hash="c", model="m", effects=("read",),
    rules=(NormalizeRule(pattern="a+", replace="<A>"),),
)  # fmt: skip


def request(*texts: str, tools: Any = (), instructions: str = "do it") -> dict[str, Any]:
    return {
        "model": "m",
        "instructions": instructions,
        "tools": [{"name": name, "description": "d", "inputSchema": {"type": "object"}} for name in tools],
        "maxOutputTokens": None,
        "reasoningEffort": None,
        "nativeTools": [],
        "messages": [{"user": {"text": text}} for text in texts],
    }


def call(asked: dict[str, Any], reply: Answer | ProviderError, events: Any = ()) -> RecordedCall:
    return RecordedCall(request=asked, fingerprint=compute_fingerprint(asked), events=tuple(events), reply=reply)


def written(*calls: RecordedCall) -> bytes:
    return encode_cassette(list(build_documents(Cassette(header=HEADER, calls=tuple(calls)))))


TWO = (
    call(request("one"), Answer(text="hi", finish="stop"), [Responded(status=200), TextDelta("h"), TextDelta("i")]),
    call(request("one", "two"), Answer(text="bye", finish="stop"), [TextDelta("bye")]),
)


def refused(raw: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        decode_cassette(raw, name="t.jsonl")
    return caught.value.problem


def test_what_was_recorded_comes_back() -> None:
    answer = Answer(
        text="said\ud800\0\n",
        reasoning="thought",
        refusal="no",
        calls=(build_tool_call("id 1", "bash", '{"b":1, "a":"ü"}'), build_tool_call("id 2", "bash", "{broken")),
        usage=Usage(input=1, cached=0),
        finish="tool_calls",
        finish_raw="tool_use",
        model="m-1",
        continuation={"z": [1, {"a": None}], "b": 2},
        cost_nusd=7,
        notes=("usage_unreported",),
    )
    error = ProviderError(kind="context_length", message="too long", retryable=False, status=400, usage=Usage(input=3))
    calls = (
        call(
            request("a", tools=["x", "y"]),
            answer,
            [Responded(status=200, provider_request_id="r"), ReasoningDelta("th")],
        ),
        call(request("b", instructions="sum up"), Answer(text="t", finish="stop"), [TextDelta("t")]),
        call(request("a", "b", "c", tools=["x", "y"]), error, [Responded(status=400)]),
    )
    found = decode_cassette(written(*calls), name="t")
    assert found.header == HEADER
    assert found.calls[:2] == calls[:2]
    assert found.calls[2].request == calls[2].request
    assert str(found.calls[2].reply) == str(error)


def test_continuation_keeps_the_order_of_its_keys() -> None:
    answer = Answer(continuation={"z": 1, "a": 2})
    found = decode_cassette(written(call(request("a"), answer)), name="t").calls[0].reply
    assert isinstance(found, Answer)
    assert list(found.continuation) == ["z", "a"]


@given(st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=5), st.text(max_size=20))
def test_any_transcripts_come_back(transcripts: list[list[str]], text: str) -> None:
    calls = tuple(call(request(*texts), Answer(text=text), [TextDelta(text)]) for texts in transcripts)
    assert decode_cassette(written(*calls), name="t").calls == calls


def test_a_growing_transcript_is_written_once() -> None:
    long = "x" * 5000
    calls = [call(request(*[long] * (n + 1)), Answer()) for n in range(20)]
    assert len(written(*calls)) < 20 * 6500


def test_every_cut_is_refused_and_an_intact_file_is_not() -> None:
    raw = written(*TWO)
    decode_cassette(raw, name="t")
    for end in {*range(0, len(raw) - 1, 97), *(found.end() for found in re.finditer(b"\n", raw[:-1]))}:
        assert refused(raw[:end]).startswith("t.jsonl:")


def test_a_missing_last_line_is_told() -> None:
    raw = b"".join(written(*TWO).splitlines(keepends=True)[:-1])
    assert refused(raw) == "t.jsonl:4: end: the file is truncated: its last line is missing"


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_an_edited_line_is_refused_with_its_number(place: int) -> None:
    rows = written(*TWO).splitlines(keepends=True)
    rows[place] = re.sub(rb'":(\d|"\w)', lambda m: m[0][:-1] + bytes([m[0][-1] ^ 1]), rows[place], count=2)
    assert refused(b"".join(rows)).startswith(f"t.jsonl:{place + 1}: ")


def test_lines_in_another_order_are_refused() -> None:
    first, one, two, end = written(*TWO).splitlines(keepends=True)
    assert refused(first + two + one + end).startswith("t.jsonl:2: check: ")


def test_another_format_is_refused_by_name() -> None:
    raw = written(*TWO).replace(b"cassette/v1", b"cassette/v2", 1)
    assert refused(raw) == """t.jsonl:1: format: expected 'cassette/v1', got "cassette/v2\""""


def test_what_is_too_long_is_refused_unread() -> None:
    assert "a cassette has at most 262,144" in refused(b"{" * (MAX_CASSETTE_BYTES + 1))


@pytest.mark.parametrize("raw", [b"", b"[]\n", b"null", b"\xff\n", b"{}", b'{"format":"cassette/v1"}'])
def test_no_cassette_at_all_is_refused(raw: bytes) -> None:
    assert refused(raw).startswith("t.jsonl:1: ")


def test_a_call_whose_fingerprint_is_anothers_is_refused() -> None:
    documents = list(build_documents(Cassette(header=HEADER, calls=TWO)))
    documents[1]["fingerprint"] = documents[2]["fingerprint"]
    assert refused(encode_cassette(documents)).startswith("t.jsonl:2: fingerprint: ")


def test_a_field_of_another_type_is_named() -> None:
    documents = list(build_documents(Cassette(header=HEADER, calls=TWO)))
    documents[1]["events"][0] = {"responded": {"status": "200"}}
    assert refused(encode_cassette(documents)) == (
        "t.jsonl:2: events[0].responded.status: expected an integer, got another type"
    )


def test_lines_are_plain_json() -> None:
    for row in written(*TWO).decode("ascii").splitlines():
        json.loads(row)


@pytest.mark.parametrize(
    ("place", "odd"),
    [
        (("answer", "text"), 1), (("answer", "reasoning"), []), (("answer", "finish"), 7), (("answer", "model"), {}),
        (("answer", "cost_nusd"), "1"), (("answer", "calls"), 5), (("answer", "calls"), "x"),
        (("answer", "notes"), 5), (("answer", "usage", "input"), "many"), (("answer", "usage", "output"), None),
        (("answer", "usage", "cached"), True), (("events", 0, "responded", "requestId"), 3),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named_by_its_field_also_where_the_checks_were_made_anew(
    place: tuple[int | str, ...], odd: Any
) -> None:
    answer = Answer(text="hi", finish="stop", model="m", usage=Usage(input=1, output=2, cached=0))
    documents = list(
        build_documents(
            Cassette(header=HEADER, calls=(call(request("one"), answer, [Responded(status=200), TextDelta("hi")]),))
        )
    )
    inner: Any = documents[1]
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = odd
    assert str(place[-1]) in refused(encode_cassette(documents))


def test_a_recorded_error_has_a_whole_number_for_its_status() -> None:
    broken = ProviderError(kind="server_error", message="down", retryable=True, status=500)
    documents = list(build_documents(Cassette(header=HEADER, calls=(call(request("one"), broken),))))
    documents[1]["error"]["status"] = "500"
    assert "error.status" in refused(encode_cassette(documents))


@pytest.mark.parametrize("odd", ["1e999", "[" * 900 + "]" * 900])
def test_what_could_not_be_written_again_is_refused_also_where_the_checks_were_made_anew(odd: str) -> None:
    documents = list(
        build_documents(Cassette(header=HEADER, calls=(call(request("one"), Answer(text="hi", continuation="@")),)))
    )
    raw = encode_cassette([documents[0]])
    body = json.dumps(documents[1], separators=(",", ":"))[:-1].replace('"@"', odd).encode()
    before = json.loads(raw)["check"]
    check = hashlib.sha256(before.encode() + body).hexdigest()
    assert ":2: " in (told := refused(raw + body + f',"check":"{check}"}}\n'.encode()))
    assert "not valid JSON" in told or "too deeply" in told
