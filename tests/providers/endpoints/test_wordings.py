"""Tests of the table of error wordings, with bodies as the providers write them."""

import json
from typing import Any, get_args

import pytest

from providers.endpoints.dialects.wordings import CODES, TEXTS, VAGUE_CODES, exceeds_allowance
from providers.endpoints.faults import build_inner_error, build_refusal
from providers.errors import ErrorKind

INVALID = "invalid_request_error"


def openai_error(message: str, code: Any = None, kind: str = INVALID) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic_error(message: str, kind: str = INVALID) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def google_error(code: int, message: str, status: str, reason: str | None = None) -> list[dict[str, Any]]:
    details = [{"reason": reason}] if reason is not None else []
    return [{"error": {"code": code, "message": message, "status": status, "details": details}}]


CONTEXT = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
CASES: list[tuple[int, Any, ErrorKind]] = [
    # context length
    (400, openai_error(CONTEXT, "context_length_exceeded"), "context_length"),
    (400, openai_error("Your input exceeds the context window of this model."), "context_length"),
    (400, anthropic_error("prompt is too long: 213462 tokens > 200000 maximum"), "context_length"),
    (400, anthropic_error("input length and `max_tokens` exceed context limit: 1 + 2 > 2"), "context_length"),
    (
        400,
        google_error(400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "x"),
        "context_length",
    ),
    (
        400,
        openai_error("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        "context_length",
    ),
    (
        400,
        {"error": "This model's maximum prompt length is 8 but the request contains 9 tokens.", "code": "x"},
        "context_length",
    ),
    (400, openai_error("Please reduce the length of the messages or completion."), "context_length"),
    (400, openai_error("Range of input length should be [1, 129024]", "invalid_parameter_error"), "context_length"),
    (
        400,
        {"code": "InvalidParameter", "message": "<400> InternalError: Range of input length should be [1, 6000]"},
        "context_length",
    ),
    (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, "context_length"),
    (
        400,
        openai_error("prompt token count of 391491 exceeds the limit of 128000", "model_max_prompt_tokens_exceeded"),
        "context_length",
    ),
    (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 and 200",
            "error_type": "validation",
        },
        "context_length",
    ),
    (
        422,
        {
            "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
            "error_type": "validation",
        },
        "context_length",
    ),
    (
        400,
        {"error": {"code": 400, "message": "x", "type": "exceed_context_size_error", "n_ctx": 4096}},
        "context_length",
    ),
    (
        500,
        {"error": {"code": 500, "message": "the request exceeds the available context size", "type": "server_error"}},
        "context_length",
    ),
    (
        400,
        {
            "error": (
                "Trying to keep the first 9 tokens when context the overflows. However, the model is loaded with "
                "context length of only 4096 tokens"
            )
        },
        "context_length",
    ),
    (400, {"message": "Input is too long for requested model.", "__type": "ValidationException"}, "context_length"),
    (
        400,
        {"message": "too many tokens: size limit exceeded by 11 tokens. Try using shorter or fewer inputs."},
        "context_length",
    ),
    (
        400,
        openai_error("Invalid request: Your request exceeded model token limit: 131072 (requested: 200000)"),
        "context_length",
    ),
    (400, openai_error("invalid params, context window exceeds limit (2013)"), "context_length"),
    (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 maximum context"
            " length",
            "code": "3051",
        },
        "context_length",
    ),
    (
        400,
        openai_error(
            "The input (210000 tokens) is longer than the model's context length (200000 tokens).", 400, "BadRequest"
        ),
        "context_length",
    ),
    (
        400,
        {"message": "Please reduce the length. Current length is 9000 while limit is 8192", "param": "messages"},
        "context_length",
    ),
    # an empty purse, whatever the status
    (429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package."}}, "quota"),
    (429, {"error": {"code": 1113, "message": "x"}}, "quota"),
    (
        403,
        {
            "code": "The caller does not have permission to execute the specified operation",
            "error": "Your team 1 has either used all available credits or reached its monthly spending limit.",
        },
        "quota",
    ),
    (
        429,
        {
            "code": "Some resource has been exhausted",
            "error": "Your team has either used all available credits or reached its monthly spending limit.",
        },
        "quota",
    ),
    (400, anthropic_error("You have reached your specified workspace API usage limits."), "quota"),
    (400, anthropic_error("Your credit balance is too low to access the Anthropic API."), "quota"),
    (
        400,
        openai_error("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage"),
        "quota",
    ),
    (400, {"code": "Arrearage", "message": "Access denied."}, "quota"),
    (403, {"error": {"message": "Key limit exceeded (total limit). Manage it using x", "code": 403}}, "quota"),
    (402, {"error": {"message": "This request requires more credits, or fewer max_tokens.", "code": 402}}, "quota"),
    (429, openai_error("Quota exceeded", "insufficient_quota", "insufficient_quota"), "quota"),
    (
        429,
        {"error": {"message": "Your account is suspended due to insufficient balance, please recharge", "type": "x"}},
        "quota",
    ),
    (403, openai_error("用户额度不足, 剩余额度: ＄0", "insufficient_user_quota", "new_api_error"), "quota"),
    (401, openai_error("Insufficient balance", None), "quota"),
    (402, openai_error("Insufficient Balance", "invalid_request_error", "unknown_error"), "quota"),
    (
        403,
        google_error(403, "This API method requires billing to be enabled.", "PERMISSION_DENIED", "BILLING_DISABLED"),
        "quota",
    ),
    (
        400,
        openai_error("Budget has been exceeded! Current cost: 10.1, Max budget: 10", 400, "budget_exceeded"),
        "quota",
    ),
    (402, {"error": "You have exceeded your monthly included credits for Inference Providers."}, "quota"),
    # a rate, even where the words are those of a purse or of a window
    (
        429,
        google_error(429, "You exceeded your current quota. Please retry in 5 s.", "RESOURCE_EXHAUSTED"),
        "rate_limit",
    ),
    (
        429,
        {"message": "Too many tokens, please wait before trying again.", "__type": "ThrottlingException"},
        "rate_limit",
    ),
    (
        429,
        openai_error(
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 1500.",
            "rate_limit_exceeded",
            "tokens",
        ),
        "rate_limit",
    ),
    (
        429,
        anthropic_error(
            "This request would exceed your organization's rate limit of 30,000 input tokens per minute",
            "rate_limit_error",
        ),
        "rate_limit",
    ),
    (429, {"error": {"code": "1302", "message": "High concurrency usage of this API"}}, "rate_limit"),
    (429, {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded"}, "rate_limit"),
    # never fits
    (
        429,
        openai_error(
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41235.",
            "rate_limit_exceeded",
            "tokens",
        ),
        "request_too_large",
    ),
    (
        413,
        openai_error(
            "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 8000",
            "rate_limit_exceeded",
            "tokens",
        ),
        "request_too_large",
    ),
    (
        429,
        openai_error("Limit: 30,000 tokens/min. Requested: 41,235.", "rate_limit_exceeded", "tokens"),
        "request_too_large",
    ),
    # credentials behind another status
    (400, google_error(400, "API key not valid. Please pass a valid key.", "x", "API_KEY_INVALID"), "auth"),
    (400, google_error(400, "API key expired. Please renew the API key.", "INVALID_ARGUMENT"), "auth"),
    (
        400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***23."},
        "auth",
    ),
    (
        403,
        {
            "message": "The security token included in the request is invalid.",
            "__type": "UnrecognizedClientException",
        },
        "auth",
    ),
    # an unknown model
    (404, anthropic_error("model: claude-opus-9-20270101", "not_found_error"), "model_not_found"),
    (404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}, "not_found"),
    (404, {"error": {"message": "No endpoints found for x/y.", "code": 404}}, "model_not_found"),
    (404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}}, "not_found"),
    (400, {"error": {"message": "x/y is not a valid model ID", "code": 400}}, "model_not_found"),
    (
        404,
        google_error(404, "models/gemini-9 is not found for API version v1main, or is not supported", "NOT_FOUND"),
        "model_not_found",
    ),
    (400, openai_error("Model Not Exist"), "model_not_found"),
    (404, {"error": "model 'x' not found"}, "model_not_found"),
    (400, {"message": "The provided model identifier is invalid."}, "model_not_found"),
    (400, {"error": {"code": "1211", "message": "Unknown Model, please check the model code."}}, "model_not_found"),
    (
        404,
        {"message": "Model xyz does not exist or you do not have access to it.", "type": "not_found_error"},
        "model_not_found",
    ),
    # moderation and overload
    (
        400,
        openai_error("Input data may contain inappropriate content.", "data_inspection_failed", "x"),
        "content_filter",
    ),
    (400, openai_error("Content Exists Risk"), "content_filter"),
    (400, {"error": {"code": "1301", "message": "unsafe"}}, "content_filter"),
    (503, google_error(503, "The model is overloaded. Please try again later.", "UNAVAILABLE"), "overloaded"),
    (529, anthropic_error("Overloaded", "overloaded_error"), "overloaded"),
]


@pytest.mark.parametrize(("status", "body", "kind"), CASES)
def test_providers_wording_tells_the_kind(status: int, body: Any, kind: str) -> None:
    error = build_refusal(status, {}, json.dumps(body).encode())
    assert error.kind == kind
    if kind in {"quota", "context_length", "request_too_large", "auth", "model_not_found"}:
        assert error.retryable is False


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "quota"),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate_limit"),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "auth"),
        ({"base_resp": {"status_code": 1027, "status_msg": "output sensitive"}}, "content_filter"),
        ({"base_resp": {"status_code": 2013, "status_msg": "context window exceeds limit"}}, "context_length"),
        ({"error": {"code": 429, "message": "x", "metadata": {"error_type": "rate_limit_exceeded"}}}, "rate_limit"),
        ({"error": {"code": 402, "message": "Insufficient credits"}}, "quota"),
        ({"error": {"code": 503, "message": "Provider is overloaded"}}, "overloaded"),
        (
            {
                "error": {
                    "code": 400,
                    "message": "Provider returned error",
                    "metadata": {"raw": json.dumps(openai_error(CONTEXT))},
                }
            },
            "context_length",
        ),
        (
            {
                "error": {
                    "code": 429,
                    "message": "Provider returned error",
                    "metadata": {"raw": "used all available credits"},
                }
            },
            "quota",
        ),
    ],
)
def test_error_inside_an_answer_is_told_by_the_same_table(error: dict[str, Any], kind: str) -> None:
    assert build_inner_error(error).kind == kind


def test_plain_text_is_read_like_a_message() -> None:
    assert build_refusal(429, {}, b"Insufficient balance, please recharge.").kind == "quota"
    assert build_refusal(429, {}, b"<html>please recharge</html>").kind == "rate_limit"


def test_every_row_names_its_source_and_a_kind() -> None:
    rows = [*CODES.values(), *VAGUE_CODES.values(), *(wording for _, wording in TEXTS)]
    assert all(row.source.startswith("https://") and row.kind in get_args(ErrorKind) for row in rows)


@pytest.mark.parametrize(
    ("text", "exceeds"),
    [
        ("Limit 30000, Requested 41235", True),
        ("Limit 30000, Used 1, Requested 30000", False),
        ("Limit 30,000, Used 1, Requested 30,001", True),
        ("limit: 5. requested: 6", True),
        ("no limit, nothing requested", False),
        ("Limit , Requested ,", False),
    ],
)
def test_request_above_the_whole_allowance_is_recognised(text: str, exceeds: bool) -> None:
    assert exceeds_allowance(text) is exceeds


# --- unknown wordings -------------------------------------------------------------------------------------------


def test_unknown_wording_is_kept_whole() -> None:
    text = "Der Kontostand reicht nicht: " + "bitte aufladen " * 30
    for status in (400, 403, 404, 422, 429, 418):
        error = build_refusal(status, {}, json.dumps({"error": {"message": text}}).encode())
        assert error.wording == text.strip()
        assert len(error.message) <= 200
    assert build_inner_error({"error": text}).wording == text.strip()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai_error("Unsupported parameter: 'max_tokens'", "unsupported_parameter")),
        (429, openai_error("Too many requests")),
        (500, openai_error("nobody knows")),
        (413, openai_error("nobody knows")),
        (401, openai_error("nobody knows")),
        (404, openai_error("x", "model_not_found")),
        (400, {}),
    ],
)
def test_known_wording_is_not_reported_as_unknown(status: int, body: Any) -> None:
    assert build_refusal(status, {}, json.dumps(body).encode()).wording in {"", "{}"}


def test_key_in_an_unknown_wording_is_masked() -> None:
    error = build_refusal(403, {}, b'{"message": "nobody likes sk-abcdefghijkl"}', secrets=["sk-abcdefghijkl"])
    assert "sk-abc" not in error.wording
