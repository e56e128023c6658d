import gzip
import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from providers.answer_form import describe_form
from providers.base import Request, Responded, TextDelta, UserText
from providers.endpoints.typesafe import Typesafe, encode_request, list_schema_problems, open_provider
from providers.errors import ProviderError
from providers.registry import ProviderOptions
from providers.usage import Usage
from tests.providers.endpoints.asking import ASKED, KEY, ask, failing
from tests.providers.endpoints.systemone import USAGE, choice, noul, refuse, score, speaking
from tests.providers.loopback import Exchange, serving

pytestmark = pytest.mark.anyio
SCHEMA = {
    "type": "object",
    "required": ["verdict"],
    "properties": {
        "verdict": {"enum": ["allow", "deny"], "description": "May it run?", "x-criteria": {"deny": "It destroys"}},
        "urgent": {"type": "boolean", "description": "Is it urgent?"},
        "risk": {"type": "integer", "x-levels": [1, 2, 3]},
        "reason": {"type": "string"},
    },
}
QUESTION = attrs.evolve(ASKED, answer_schema=SCHEMA, messages=(UserText(text='{"tool": "Bash"}'),))
GIVEN = {"verdict": choice("deny", 0.8), "urgent": noul(0.1), "risk": score(1.6, 0.6)}


def opened(url: str, key: str = KEY) -> Typesafe:
    return open_provider(ProviderOptions(base_url=url, api_key=key))


async def failed_by(script: Callable[..., Any], request: Request = QUESTION) -> ProviderError:
    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider, request)
        await provider.aclose()
    return error


def document(**changes: Any) -> bytes:
    return json.dumps({"model": "jev-1.13.0", "answers": GIVEN, "usage": USAGE} | changes).encode()


# --- the request ------------------------------------------------------------------------------------------------


async def test_nodes_schema_is_asked_as_questions_about_its_prompt() -> None:
    async with serving(speaking(GIVEN)) as server:
        provider = opened(server.url.removesuffix("/v1"))
        answer, heard = await ask(provider, QUESTION)
        assert provider.size(QUESTION) == len(server.requests[0][2])
        await provider.aclose()
    path, headers, body = server.requests[0]
    assert path == "/v1/systemone"
    assert (headers["authorization"], headers["accept"]) == (f"Bearer {KEY}", "application/json")
    assert json.loads(body) == {
        "state": {"tool": "Bash"},
        "model": "m-1",
        "questions": {
            "verdict": {
                "type": "choice",
                "instructions": "Be brief.\n\nMay it run?",
                "criteria": {"allow": None, "deny": "It destroys"},
            },
            "urgent": {"type": "noul", "instructions": "Be brief.\n\nIs it urgent?"},
            "risk": {"type": "score", "instructions": "Be brief.\n\nrisk", "criteria": ["1", "2", "3"]},
        },
    }
    assert KEY not in body.decode()
    assert json.loads(answer.text) == {"answer": {"verdict": "deny", "urgent": False, "risk": 3}, "confidence": 0.6}
    assert (answer.model, answer.finish, answer.usage) == ("jev-1.13.0", "stop", Usage(input=318, output=34))
    assert heard == [Responded(status=200), TextDelta(answer.text)]


def sent(**changes: Any) -> dict[str, Any]:
    return json.loads(encode_request(attrs.evolve(QUESTION, **changes)))


@pytest.mark.parametrize(
    ("text", "state"),
    [('{"a": [1]}', {"a": [1]}), ("rm -rf /", "rm -rf /"), ('"a"', '"a"'), ("{", "{"), ("", ""), ("[1]", "[1]")],
)
def test_state_is_an_object_where_the_prompt_is_one_and_else_its_text(text: str, state: dict[str, Any] | str) -> None:
    assert sent(messages=(UserText(text="before"), UserText(text=text)))["state"] == state


def test_what_a_writer_of_text_is_told_about_the_form_is_not_said() -> None:
    told = f"Guard the machine.\n\n{describe_form(SCHEMA)}"
    assert sent(instructions=told)["questions"]["urgent"]["instructions"] == "Guard the machine.\n\nIs it urgent?"
    assert sent(instructions=describe_form(SCHEMA))["questions"]["urgent"]["instructions"] == "Is it urgent?"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (None, "serves only the model nodes"),
        (
            {"type": "object", "required": ["reason"], "properties": SCHEMA["properties"]},
            "reason: is required but cannot be asked",
        ),
        ({"type": "string"}, "must be an object with properties"),
    ],
)
async def test_request_that_cannot_be_asked_is_refused_and_nothing_is_sent(
    schema: dict[str, Any] | None, why: str
) -> None:
    async with serving(speaking()) as server:
        provider = opened(server.url)
        error = await failing(provider, attrs.evolve(QUESTION, answer_schema=schema))
        await provider.aclose()
    assert (error.kind, error.retryable, server.connections) == ("invalid_request", False, 0)
    assert why in error.message


def test_problems_of_a_schema_are_told_before_anything_is_asked() -> None:
    assert list_schema_problems(SCHEMA) == []
    assert len(list_schema_problems(SCHEMA | {"required": ["reason", "gone"]})) == 2


# --- faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "kind", "retryable"),
    [
        (400, "Unknown model: 'm-1'", "model_not_found", False),
        (401, "Invalid API key", "auth", False),
        (402, "Payment required", "quota", False),
        (413, "Too large", "request_too_large", False),
        (422, "questions", "invalid_request", False),
        (429, "Slow down", "rate_limit", True),
        (500, "Boom", "server_error", True),
        (529, "Busy", "overloaded", True),
    ],
)
async def test_refusals_are_told_from_their_status(status: int, message: str, kind: str, retryable: bool) -> None:
    error = await failed_by(lambda exchange: refuse(exchange, status, message))
    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)
    assert message in error.message


async def test_endpoint_says_when_to_try_again() -> None:
    error = await failed_by(lambda exchange: refuse(exchange, 429, "Slow down", retry_after="7"))
    assert error.retry_after_s == 7


async def test_wrong_key_is_an_error_of_authentication() -> None:
    assert (await failed_by(speaking(key="another"))).kind == "auth"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (document()[:-20], "did not answer with JSON"),
        (b"<html><body>Welcome</body></html>", "is the base URL right?"),
        (b"\x00\xff\xfe", "did not answer with JSON"),
        (b"", "did not answer with JSON"),
        (b"[]", "did not answer with JSON"),
        (b"{}", "there are no answers"),
        (b'{"answers": NaN}', "did not answer with JSON"),
        (document(answers=None), "there are no answers"),
        (document(answers={**GIVEN, "verdict": choice("maybe", 1)}), "'verdict': 'maybe' is not one of the options"),
        (document(answers={**GIVEN, "urgent": noul(1.5)}), "'urgent': noul 1.5 is not a number from 0 to 1"),
        (document(answers={"verdict": GIVEN["verdict"]}), "'urgent' is not answered"),
        (b"[" * 100_000, "did not answer with JSON"),
    ],
)
async def test_body_that_is_no_answer_is_a_bad_payload(body: bytes, why: str) -> None:
    error = await failed_by(lambda exchange: exchange.whole(body))
    assert (error.kind, error.retryable, error.mid_stream, error.status) == ("bad_payload", True, False, 200)
    assert why in error.message


async def test_answer_that_cannot_be_read_is_charged_with_what_it_used() -> None:
    body = document(answers={})
    error = await failed_by(lambda exchange: exchange.whole(body))
    assert (error.usage, error.model) == (Usage(input=318, output=34), "jev-1.13.0")


async def test_error_in_an_answers_place_is_an_error() -> None:
    error = await failed_by(
        lambda exchange: exchange.whole(b'{"error": {"type": "overloaded_error", "message": "no"}}')
    )
    assert (error.kind, error.retryable, error.status) == ("overloaded", True, 200)


async def test_connection_that_breaks_is_no_answer() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.chunk(document()[:40])
        exchange.reset()

    error = await failed_by(script)
    assert (error.kind, error.retryable) == ("truncated", True)


async def test_answer_without_usage_reports_none_and_one_that_is_compressed_is_read() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(gzip.compress(document(usage=None, model=None)), content_encoding="gzip")

    async with serving(script) as server:
        provider = opened(server.url)
        answer, _ = await ask(provider, QUESTION)
        await provider.aclose()
    assert (answer.usage, answer.notes, answer.model) == (None, ("usage_unreported",), None)


async def test_hostile_words_of_the_endpoint_are_shown_on_one_line() -> None:
    error = await failed_by(
        lambda exchange: exchange.whole(document(answers={**GIVEN, "verdict": choice("\x1b[31m\n", 1)}))
    )
    assert isinstance(error, ProviderError)
    assert error.message.isprintable()
