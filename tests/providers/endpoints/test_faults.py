import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.endpoints.faults import (
    MAX_EXCERPT_CHARS,
    build_inner_error,
    build_refusal,
    clean_excerpt,
    mask_secrets,
    parse_error_body,
    parse_retry_after,
)
from tests.providers.endpoints.wire import samples, shorten_message

RECORDED = samples("http-error")
KEY = "sk-proj-abcdefghijklmnop"


@pytest.mark.parametrize(("name", "body", "document"), RECORDED, ids=[name for name, _, _ in RECORDED])
def test_recorded_refusal_is_classified_as_expected(name: str, body: bytes, document: dict[str, Any]) -> None:
    expected = document["expected"]["error"]
    error = build_refusal(document["http"]["status"], document["http"]["headers"], body)
    assert (error.kind, error.retryable, error.status, error.retry_after_s, error.mid_stream) == (
        expected["kind"],
        expected["retryable"],
        expected["status"],
        expected.get("retry_after_s"),
        False,
    )
    assert error.message == shorten_message(" ".join(expected["message"].split()))


def kind_of(status: int, document: dict[str, Any], **headers: Any) -> str:
    return build_refusal(status, headers, json.dumps(document).encode()).kind


def test_quota_is_told_from_a_rate_limit_by_its_code() -> None:
    assert kind_of(429, {"error": {"code": "insufficient_quota", "message": "x"}}) == "quota"
    assert kind_of(429, {"error": {"type": "exceeded_current_quota_error", "message": "x"}}) == "quota"
    # Some endpoints say "exceeded your current quota" of a limit per minute.
    assert kind_of(429, {"error": {"message": "You exceeded your current quota"}}) == "rate_limit"


def test_throttling_with_an_empty_body_is_tried_again_and_told_by_its_status() -> None:
    error = build_refusal(429, {}, b"")
    assert (error.kind, error.retryable) == ("rate_limit", True)
    assert "429" in error.message


def test_payment_required_is_retryable_only_with_a_time() -> None:
    assert build_refusal(402, {}, b"").retryable is False
    assert build_refusal(402, {"retry-after": "3"}, b"").retryable is True


def test_should_retry_header_overrides_everything() -> None:
    assert build_refusal(400, {"x-should-retry": "true"}, b"").retryable is True
    assert build_refusal(500, {"x-should-retry": "false"}, b"").retryable is False


def test_request_too_large_for_a_minutes_allowance_is_not_tried_again() -> None:
    error = build_refusal(413, {}, b'{"error": {"code": "rate_limit_exceeded", "message": "TPM"}}')
    assert (error.kind, error.retryable) == ("request_too_large", False)


def test_wrong_address_is_told_from_a_wrong_model() -> None:
    assert kind_of(404, {"detail": "Not Found"}) == "not_found"
    assert kind_of(404, {"error": {"message": "The model `gpt-5.2` does not exist"}}) == "model_not_found"


def test_unauthorized_is_auth_whatever_the_body_says() -> None:
    assert kind_of(401, {"error": {"code": "model_not_found"}}) == "auth"


def test_moderation_is_told_from_a_missing_permission() -> None:
    assert kind_of(403, {"error": {"code": 403, "metadata": {"reasons": ["violence"]}}}) == "content_filter"
    assert kind_of(403, {"error": {"code": 403}}) == "permission"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (300, "invalid_request", False),
        (307, "invalid_request", False),
        (418, "invalid_request", False),
        (503, "server_error", True),
        (504, "timeout", True),
        (524, "timeout", True),
        (529, "overloaded", True),
        (599, "server_error", True),
    ],
)
def test_status_without_a_body_decides(status: int, kind: str, retryable: bool) -> None:
    error = build_refusal(status, {}, b"")
    assert (error.kind, error.retryable) == (kind, retryable)
    assert error.message


def test_redirect_says_what_to_do() -> None:
    assert "base URL" in build_refusal(302, {"location": "http://elsewhere"}, b"").message


# --- inside answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "x", "code": 502}, "server_error", True),
        ({"message": "x", "code": "429"}, "rate_limit", True),
        ({"message": "x", "status_code": 400, "code": "tool_use_failed"}, "bad_tool_call", False),
        ({"message": "x", "code": "content_filter"}, "content_filter", False),
        ({"message": "maximum context length"}, "context_length", False),
        ({"message": "x", "type": "invalid_request_error"}, "invalid_request", False),
        ({"message": "nobody knows"}, "server_error", True),
        ("a string", "server_error", True),
    ],
)
def test_error_inside_an_answer_keeps_its_kind(error: dict[str, Any] | str, kind: str, retryable: bool) -> None:
    told = build_inner_error({"error": error})
    assert (told.kind, told.retryable, told.mid_stream) == (kind, retryable, True)


@pytest.mark.parametrize(
    "document", [None, 1, "", [], [[]], {}, {"error": []}, {"error": {"message": {}}}, [{"error": {"code": []}}]]
)
def test_shapeless_errors_never_crash(document: Any) -> None:
    parse_error_body(document)
    assert build_inner_error(document).message


# --- waiting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": "2", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "2", "retry-after-ms": "soon"}, 2.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "Mon, 99 Foo 2026 25:61:61 GMT"}, None),
    ],
)
def test_wait_is_read_from_headers(headers: dict[str, Any], seconds: float | None) -> None:
    assert parse_retry_after(headers) == seconds


def test_date_is_compared_with_the_endpoints_own_clock() -> None:
    headers = {"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}
    assert parse_retry_after(headers, lambda: 0) == 30.0


def test_date_that_has_passed_is_no_wait() -> None:
    headers = {"retry-after": "Mon, 30 Nov 2026 10:00:00 GMT", "date": "Mon, 30 Nov 2026 10:00:30 GMT"}
    assert parse_retry_after(headers) == 0.0


def test_date_without_the_endpoints_clock_uses_ours() -> None:
    headers = {"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}
    assert parse_retry_after(headers, lambda: 20_000_000) == 40.0
    assert parse_retry_after(headers) is None


# --- hostile text -----------------------------------------------------------------------------------------------


def test_excerpt_is_one_short_line_without_tags_scripts_and_control_characters() -> None:
    text = (
        "<html><head><style>a{}</style><script>alert(1)</script></head><p>a &amp; b\x1b[31m\r\n\u202ec\x00</p></html>"
    )
    assert clean_excerpt(text) == "a & b [31m c"
    assert MAX_EXCERPT_CHARS - 10 < len(clean_excerpt("long word " * 500)) <= MAX_EXCERPT_CHARS
    assert clean_excerpt("x" * 5000) == "…"  # half a word may be half a credential


def test_comparison_signs_are_not_taken_for_tags() -> None:
    assert clean_excerpt("needs 3 < 5 and 7 > 5") == "needs 3 < 5 and 7 > 5"


def test_key_that_is_echoed_is_masked_in_any_body() -> None:
    for body in (
        json.dumps({"error": {"message": f"bad key {KEY}"}}).encode(),
        f"<html><p>{KEY}</p></html>".encode(),
        f"{'x' * 190} {KEY}".encode(),
        json.dumps({"error": {"message": f"bad key {KEY}"}}).replace("sk-", "\\u0073k-").encode(),
        f"<html><p>{KEY.replace('-', '&#45;')}</p></html>".encode(),
    ):
        message = str(build_refusal(401, {}, body, secrets=[KEY]))
        assert KEY[:12] not in message
        assert "abcdef" not in message


def test_beginning_of_a_key_is_masked_too() -> None:
    assert mask_secrets(f"key {KEY[:15]}**** is wrong", [KEY]) == "key [redacted:credential]**** is wrong"
    assert mask_secrets("nothing here", [KEY]) == "nothing here"


@pytest.mark.parametrize("unit", ["<", "<script>", "<!--", "&lt;", "sk-proj-", "{", "[", "\\"])
def test_body_made_to_be_slow_is_not(unit: str) -> None:
    body = (unit * 70_000)[:70_000].encode()
    assert len(build_refusal(500, {}, body, secrets=[KEY]).message) <= MAX_EXCERPT_CHARS


@given(st.text(), st.text(min_size=8), st.text())
def test_no_text_around_a_secret_keeps_it_visible(before: str, secret: str, after: str) -> None:
    # A mark can complete a secret made of its own characters; keys are not.
    if "*" not in secret:
        assert secret not in mask_secrets(before + secret + after, [secret])


@given(st.binary())
def test_any_body_gives_a_printable_message(body: bytes) -> None:
    message = build_refusal(500, {}, body).message
    assert message.isprintable()
    assert len(message) <= MAX_EXCERPT_CHARS


@pytest.mark.parametrize(
    ("status", "turned_away"),
    [(307, True), (400, True), (401, True), (404, True), (429, True), (408, False), (500, False), (503, False)],
)
def test_only_a_refusal_that_comes_before_any_work_is_known_to_cost_nothing(status: int, turned_away: bool) -> None:
    assert build_refusal(status, {}, b"").turned_away is turned_away
