"""Cassettes in the format `cassette/v1`: one recorded run as JSON lines, with one encoder and one decoder.

The first line is the header, then follows one line per call, and the last line counts the calls. Every line ends with a
`check`, a hash over its own bytes and the previous check (a hash chain), so that a truncated, reordered or edited file
is refused with the line's number. A cassette contains no times and no ids of this machine: recording the same answers
twice gives the same bytes.

Only the difference to the previous request is written: a transcript grows by a few messages with each call, and writing
it in full would take space quadratic in the number of calls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import attrs

from providers.base import Answer, ReasoningDelta, Responded, TextDelta, ToolCall
from providers.endpoints.arguments import INVALID_JSON, MAX_NESTING, build_tool_call, exceeds_depth, parse_model_json
from providers.errors import ProviderError
from providers.recording.material import MATERIAL_FIELDS, compute_fingerprint
from providers.recording.normalization import NormalizeRule
from providers.usage import Usage
from store.errors import UsageError
from store.events import Json

CASSETTE_FORMAT = "cassette/v1"
FILE_SUFFIX = ".jsonl"
MAX_CASSETTE_BYTES = 256 * 1024
"""Maximum size of a cassette in bytes."""

RecordedEvent = Responded | TextDelta | ReasoningDelta
T = TypeVar("T")

_EXTRA_LEVELS = 20
"""Levels of nesting that a line adds around an answer."""
_CHECK_KEY = b',"check":"'
_CHECK_SEED = "0" * 64
_USAGE_FIELDS = tuple(field.name for field in attrs.fields(Usage))
_PLAIN_ANSWER_FIELDS = ("refusal", "finish", "finish_raw", "model", "cost_nusd")
"""Fields of an answer that are written unchanged if they are not empty."""


@attrs.frozen(kw_only=True)
class CassetteHeader:
    """The header of a cassette: the recorded task and the configuration of its run."""

    suite_id: str
    suite_version: str
    task_id: str
    config_hash: str
    model: str
    effects: tuple[str, ...]
    """Effects that the caller granted to the run, sorted."""
    rules: tuple[NormalizeRule, ...] = ()
    """The task's `replayNormalize` rules, already applied to the texts."""


@attrs.frozen(kw_only=True)
class RecordedCall:
    """One request with its events and its reply."""

    request: Mapping[str, Json]
    """The complete request, normalised; see `providers.recording.material`."""
    fingerprint: str
    events: tuple[RecordedEvent, ...]
    """The events that the provider emitted, in order."""
    reply: Answer | ProviderError


@attrs.frozen(kw_only=True)
class Cassette:
    """One recorded run."""

    header: CassetteHeader
    calls: tuple[RecordedCall, ...]
    check: str = attrs.field(default="", eq=False)
    """The check of the last line, which covers the whole file; empty if there is no file."""


# --- encoding -----------------------------------------------------------------------------------------------------


def build_documents(cassette: Cassette) -> Iterator[dict[str, Json]]:
    """The JSON objects of the lines without their checks, to be scanned for secrets and then encoded."""
    header = cassette.header
    yield {
        "format": CASSETTE_FORMAT,
        "suiteId": header.suite_id,
        "suiteVersion": header.suite_version,
        "taskId": header.task_id,
        "configHash": header.config_hash,
        "model": header.model,
        "grants": list(header.effects),
        "replayNormalize": [rule.to_json() for rule in header.rules],
    }
    before: Mapping[str, Json] = {}
    for number, call in enumerate(cassette.calls, start=1):
        yield {
            "call": number,
            "fingerprint": call.fingerprint,
            "request": _diff_request(before, call.request),
            "events": [_encode_event(event) for event in call.events],
            **_encode_reply(call),
        }
        before = call.request
    yield {"end": len(cassette.calls)}


def encode_cassette(documents: Sequence[Mapping[str, Json]]) -> bytes:
    """Encode the objects of `lines` as a file. Pure ASCII, so that even lone surrogates survive every tool."""
    check, written = _CHECK_SEED, []
    for document in documents:
        body = json.dumps(document, separators=(",", ":"), allow_nan=False)[:-1].encode("ascii")
        check = _chain_check(check, body)
        written.append(body + _CHECK_KEY + check.encode() + b'"}\n')
    return b"".join(written)


def _chain_check(before: str, body: bytes) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()


def _diff_request(before: Mapping[str, Json], request: Mapping[str, Json]) -> dict[str, Json]:
    """The part of *request* that the decoder cannot take from the previous request."""
    changed = {
        name: request[name]
        for name in MATERIAL_FIELDS
        if name != "messages" and (not before or request[name] != before[name])
    }
    known, messages = before.get("messages", []), request["messages"]
    same = next((n for n, (a, b) in enumerate(zip(known, messages, strict=False)) if a != b), None)
    kept = min(len(known), len(messages)) if same is None else same
    return changed | {"kept": kept, "messages": messages[kept:]}


def _encode_event(event: RecordedEvent) -> dict[str, Json]:
    match event:
        case Responded():
            encoded: dict[str, Json] = {"status": event.status}
            if event.provider_request_id is not None:
                encoded["requestId"] = event.provider_request_id
            return {"responded": encoded}
        case TextDelta(text):
            return {"text": text}
        case ReasoningDelta(text):
            return {"reasoning": text}


def _encode_reply(call: RecordedCall) -> dict[str, Json]:
    reply = call.reply
    if isinstance(reply, ProviderError):
        return {"error": _encode_error(reply) | _encode_usage(reply.usage)}
    return {"answer": _encode_answer(reply, call.events) | _encode_usage(reply.usage)}


def _encode_error(error: ProviderError) -> dict[str, Json]:
    encoded: dict[str, Json] = {"kind": error.kind, "message": error.message}
    if error.status is not None:
        encoded["status"] = error.status
    if error.mid_stream:
        encoded["midStream"] = True
    return encoded


def _encode_answer(answer: Answer, events: Sequence[RecordedEvent]) -> dict[str, Json]:
    """Encode an answer without the texts that its events hold already."""
    encoded: dict[str, Json] = {}
    if answer.text != _join_streamed(events, TextDelta):
        encoded["text"] = answer.text
    if answer.reasoning != _join_streamed(events, ReasoningDelta):
        encoded["reasoning"] = answer.reasoning
    if answer.calls:
        encoded["calls"] = [_encode_call(call) for call in answer.calls]
    for name in _PLAIN_ANSWER_FIELDS:
        if (value := getattr(answer, name)) not in (None, ""):
            encoded[name] = value
    if answer.continuation is not None:
        encoded["continuation"] = answer.continuation
    if answer.notes:
        encoded["notes"] = list(answer.notes)
    return encoded


def _encode_call(call: ToolCall) -> dict[str, Json]:
    encoded: dict[str, Json] = {"id": call.id, "name": call.name, "arguments": call.raw}
    return encoded if call.problem is None else encoded | {"problem": call.problem}


def _encode_usage(usage: Usage | None) -> dict[str, Json]:
    return {} if usage is None else {"usage": usage.to_json()}


def _join_streamed(events: Sequence[RecordedEvent], kind: type[TextDelta | ReasoningDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


# --- decoding -----------------------------------------------------------------------------------------------------


def decode_cassette(raw: bytes, *, name: str) -> Cassette:
    """Decode a file; *name* is the file's name in messages.

    Raises:
        UsageError: it is too long, has another format, or was truncated or edited; with line and field.
    """
    if len(raw) > MAX_CASSETTE_BYTES:
        raise _build_refusal(name, 1, "", f"{len(raw):,} bytes; a cassette has at most {MAX_CASSETTE_BYTES:,}")
    rows = _read_lines(raw, name)
    first = next(rows, None)
    if first is None:
        raise _build_refusal(name, 1, "", "the file is empty")
    header = _decode_header(first)
    calls: list[RecordedCall] = []
    before: Mapping[str, Json] = {}
    check = ""
    for row in rows:
        if check:
            raise row.build_refusal("", "unexpected line after the end")
        if "end" in row.value:
            if row.take_field("end", int) != len(calls):
                raise row.build_refusal("end", f"expected {len(calls)}, the number of calls before it")
            check = row.take_field("check", str)
            continue
        call = _decode_call(row, before, len(calls) + 1)
        calls.append(call)
        before = call.request
    if not check:
        raise _build_refusal(name, len(calls) + 2, "end", "the file is truncated: its last line is missing")
    return Cassette(header=header, calls=tuple(calls), check=check)


@attrs.frozen
class _CassetteLine:
    """One decoded line."""

    name: str
    line: int
    value: Mapping[str, Json]

    def take_field(self, field: str, kind: type[T], inside: Mapping[str, Json] | None = None) -> T:
        """Read a field of the line, or of *inside*, as *kind*; *field* is its full path for messages."""
        value = (self.value if inside is None else inside).get(field.rpartition(".")[2])
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.build_refusal(
                field, f"expected {_TYPE_NAMES[kind]}, got {'nothing' if value is None else 'another type'}"
            )
        return value

    def build_refusal(self, field: str, problem: str) -> UsageError:
        return _build_refusal(self.name, self.line, field, problem)


_TYPE_NAMES: Mapping[type, str] = {str: "a string", int: "an integer", list: "an array", dict: "an object"}


def _read_lines(raw: bytes, name: str) -> Iterator[_CassetteLine]:
    """Yield the lines and verify their checks. The format is verified first, as other formats may check differently."""
    check = _CHECK_SEED
    for line, text in enumerate(raw.splitlines(), start=1):
        value = parse_model_json(text)
        if value is INVALID_JSON:
            raise _build_refusal(name, line, "", "not valid JSON: the line was truncated or edited")
        if not isinstance(value, dict):
            raise _build_refusal(name, line, "", "expected an object")
        if exceeds_depth(value, MAX_NESTING + _EXTRA_LEVELS):
            raise _build_refusal(name, line, "", "nested too deeply")
        if line == 1 and value.get("format") != CASSETTE_FORMAT:
            raise _build_refusal(
                name, 1, "format", f"expected {CASSETTE_FORMAT!r}, got {json.dumps(value.get('format'))[:60]}"
            )
        body = text.rpartition(_CHECK_KEY)[0]
        check = _chain_check(check, body)
        if value.get("check") != check:
            raise _build_refusal(name, line, "check", "wrong checksum: this line or an earlier one was edited")
        yield _CassetteLine(name, line, value)


def _decode_header(row: _CassetteLine) -> CassetteHeader:
    rules = row.take_field("replayNormalize", list)
    return CassetteHeader(
        suite_id=row.take_field("suiteId", str),
        suite_version=row.take_field("suiteVersion", str),
        task_id=row.take_field("taskId", str),
        config_hash=row.take_field("configHash", str),
        model=row.take_field("model", str),
        effects=tuple(map(str, row.take_field("grants", list))),
        rules=tuple(
            NormalizeRule(
                pattern=row.take_field(f"replayNormalize[{place}].pattern", str, rule),
                replace=row.take_field(f"replayNormalize[{place}].replace", str, rule),
            )
            for place, rule in enumerate(rules)
            if isinstance(rule, dict)
        ),
    )


def _decode_call(row: _CassetteLine, before: Mapping[str, Json], number: int) -> RecordedCall:
    if row.take_field("call", int) != number:
        raise row.build_refusal("call", f"expected {number}")
    written: dict[str, Any] = row.take_field("request", dict)
    kept = row.take_field("request.kept", int, written)
    known = before.get("messages", [])
    if not 0 <= kept <= len(known):
        raise row.build_refusal("request.kept", f"the previous request has {len(known)} messages")
    request = {
        name: written.get(name, before.get(name)) if name != "messages" else None for name in MATERIAL_FIELDS
    } | {"messages": [*known[:kept], *row.take_field("request.messages", list, written)]}
    for name in ("tools", "nativeTools"):
        row.take_field(f"request.{name}", list, request)
    if compute_fingerprint(request) != row.take_field("fingerprint", str):
        raise row.build_refusal("fingerprint", "it does not match the request in this line")
    events = tuple(_decode_event(row, place, event) for place, event in enumerate(row.take_field("events", list)))
    return RecordedCall(
        request=request, fingerprint=row.take_field("fingerprint", str), events=events, reply=_decode_reply(row, events)
    )


def _decode_event(row: _CassetteLine, place: int, event: Json) -> RecordedEvent:
    at = f"events[{place}]"
    if not isinstance(event, dict) or len(event) != 1:
        raise row.build_refusal(at, "expected an object with one key")
    ((kind, content),) = event.items()
    match kind:
        case "responded" if isinstance(content, dict):
            return Responded(
                status=row.take_field(f"{at}.responded.status", int, content),
                provider_request_id=row.take_field(f"{at}.responded.requestId", str, content)
                if "requestId" in content
                else None,
            )
        case "text":
            return TextDelta(row.take_field(f"{at}.text", str, event))
        case "reasoning":
            return ReasoningDelta(row.take_field(f"{at}.reasoning", str, event))
        case _:
            raise row.build_refusal(at, f"unknown event {json.dumps(kind)[:60]}")


def _decode_reply(row: _CassetteLine, events: Sequence[RecordedEvent]) -> Answer | ProviderError:
    if "error" in row.value:
        error: dict[str, Any] = row.take_field("error", dict)
        return ProviderError(
            kind=cast("Any", row.take_field("error.kind", str, error)),
            message=row.take_field("error.message", str, error),
            # the recording holds the result of all tries, so another try cannot help
            retryable=False,
            status=row.take_field("error.status", int, error) if "status" in error else None,
            mid_stream=bool(error.get("midStream")),
            usage=_decode_usage(row, "error.usage", error),
        )
    answer: dict[str, Any] = row.take_field("answer", dict)
    words: dict[str, Any] = {
        name: row.take_field(f"answer.{name}", int if name == "cost_nusd" else str, answer)
        for name in _PLAIN_ANSWER_FIELDS
        if name in answer
    }
    calls = row.take_field("answer.calls", list, answer) if "calls" in answer else []
    notes = row.take_field("answer.notes", list, answer) if "notes" in answer else []
    return Answer(
        text=row.take_field("answer.text", str, {"text": _join_streamed(events, TextDelta)} | answer),
        reasoning=row.take_field(
            "answer.reasoning", str, {"reasoning": _join_streamed(events, ReasoningDelta)} | answer
        ),
        calls=tuple(_decode_tool_call(row, f"answer.calls[{place}]", call) for place, call in enumerate(calls)),
        usage=_decode_usage(row, "answer.usage", answer),
        continuation=answer.get("continuation"),
        notes=tuple(map(str, notes)),
        **words,
    )


def _decode_tool_call(row: _CassetteLine, at: str, call: Json) -> ToolCall:
    if not isinstance(call, dict):
        raise row.build_refusal(at, "expected an object")
    decoded = build_tool_call(
        row.take_field(f"{at}.id", str, call),
        row.take_field(f"{at}.name", str, call),
        row.take_field(f"{at}.arguments", str, call),
    )
    return attrs.evolve(decoded, arguments=None, problem=str(call["problem"])) if "problem" in call else decoded


def _decode_usage(row: _CassetteLine, at: str, inside: Mapping[str, Json]) -> Usage | None:
    if "usage" not in inside:
        return None
    usage: dict[str, Any] = row.take_field(at, dict, inside)
    return Usage(**{name: row.take_field(f"{at}.{name}", int, usage) for name in _USAGE_FIELDS if name in usage})


def _build_refusal(name: str, line: int, field: str, problem: str) -> UsageError:
    where = f"{name}:{line}: {field}: " if field else f"{name}:{line}: "
    return UsageError(f"{where}{problem}", "Record it again: evalctl record SUITE, or record --bundled.")
