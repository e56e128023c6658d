"""Error wordings of model providers: the codes and texts that tell an error's kind, each with its source.

One row is one wording. All readers classify by this table, so a new wording is one line here. Rows are tried in order
and the first match counts: exact codes, then texts, then vague codes, which endpoints also use for other errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs

from providers.errors import ErrorKind

OPENAI = "https://platform.openai.com/docs/guides/error-codes"
AZURE = "https://learn.microsoft.com/azure/ai-foundry/openai/how-to/content-filters"
ANTHROPIC = "https://docs.anthropic.com/en/api/errors"
GOOGLE = "https://ai.google.dev/gemini-api/docs/troubleshooting"
VERTEX = "https://cloud.google.com/apis/design/errors"
BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html"
OPENROUTER = "https://openrouter.ai/docs/api-reference/errors"
XAI = "https://docs.x.ai/docs/key-information/debugging"
GROQ = "https://console.groq.com/docs/errors"
MISTRAL = "https://docs.mistral.ai/api"
DEEPSEEK = "https://api-docs.deepseek.com/quick_start/error_codes"
MOONSHOT = "https://platform.moonshot.ai/docs/api/errors"
ZAI = "https://docs.z.ai/api-reference/api-code"
ALIBABA = "https://www.alibabacloud.com/help/en/model-studio/error-code"
MINIMAX = "https://platform.minimax.io/docs/api-reference/errorcode"
TOGETHER = "https://docs.together.ai/docs/error-codes"
FIREWORKS = "https://docs.fireworks.ai/guides/inference-error-codes"
CEREBRAS = "https://inference-docs.cerebras.ai/support/error"
COHERE = "https://docs.cohere.com/reference/errors"
COPILOT = "https://github.com/ericc-ch/copilot-api (src/lib/error.ts)"
OLLAMA = "https://github.com/ollama/ollama/blob/main/docs/api/errors.mdx"
LLAMA_CPP = "https://github.com/ggml-org/llama.cpp/tree/master/tools/server"
VLLM = "https://github.com/vllm-project/vllm/tree/main/vllm/entrypoints/openai"
SGLANG = "https://github.com/sgl-project/sglang/tree/main/python/sglang/srt"
TGI = "https://github.com/huggingface/text-generation-inference/blob/main/router/src/validation.rs"
LM_STUDIO = "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues"
LITELLM = "https://docs.litellm.ai/docs/exception_mapping"
NEW_API = "https://github.com/QuantumNous/new-api/blob/main/types/error.go"
PORTKEY = "https://portkey.ai/docs/api-reference/inference-api/error-codes"

_CODES: tuple[tuple[ErrorKind, str, str], ...] = (
    ("context_length", "context_length_exceeded", OPENAI),
    ("context_length", "string_above_max_length", OPENAI),
    ("context_length", "context_window_exceeded", LITELLM),
    ("context_length", "ContextWindowExceededError", LITELLM),
    ("context_length", "exceed_context_size_error", LLAMA_CPP),
    ("context_length", "model_context_window_exceeded", ANTHROPIC),
    ("context_length", "model_max_prompt_tokens_exceeded", COPILOT),
    ("context_length", "max_prompt_tokens_exceeded", COPILOT),
    ("context_length", "1261", ZAI),
    ("content_filter", "content_filter", AZURE),
    ("content_filter", "content_policy_violation", OPENAI),
    ("content_filter", "ContentPolicyViolationError", LITELLM),
    ("content_filter", "ResponsibleAIPolicyViolation", AZURE),
    ("content_filter", "DataInspectionFailed", ALIBABA),
    ("content_filter", "data_inspection_failed", ALIBABA),
    ("content_filter", "1301", ZAI),
    ("content_filter", "sensitive_words_detected", NEW_API),
    ("content_filter", "base_resp 1026", MINIMAX),
    ("content_filter", "base_resp 1027", MINIMAX),
    ("quota", "insufficient_quota", OPENAI),
    ("quota", "billing_hard_limit_reached", OPENAI),
    ("quota", "billing_not_active", OPENAI),
    ("quota", "billing_error", ANTHROPIC),
    ("quota", "exceeded_current_quota_error", MOONSHOT),
    ("quota", "insufficient_balance", DEEPSEEK),
    ("quota", "insufficient_credits", OPENROUTER),
    ("quota", "payment_required", OPENROUTER),
    ("quota", "credit_limit", TOGETHER),
    ("quota", "quota_exceeded", COPILOT),
    ("quota", "BILLING_DISABLED", VERTEX),
    ("quota", "1113", ZAI),
    ("quota", "1309", ZAI),
    ("quota", "Arrearage", ALIBABA),
    ("quota", "AllocationQuota.FreeTierOnly", ALIBABA),
    ("quota", "base_resp 1008", MINIMAX),
    ("quota", "base_resp 2056", MINIMAX),
    ("quota", "insufficient_user_quota", NEW_API),
    ("quota", "pre_consume_token_quota_failed", NEW_API),
    ("quota", "budget_exceeded", LITELLM),
    ("bad_tool_call", "tool_use_failed", GROQ),
    ("model_not_found", "model_not_found", OPENAI),
    ("model_not_found", "model_not_available", TOGETHER),
    ("model_not_found", "ModelNotFound", ALIBABA),
    ("model_not_found", "DeploymentNotFound", AZURE),
    ("model_not_found", "model_not_supported", COPILOT),
    ("model_not_found", "invalid_model", MISTRAL),
    ("model_not_found", "1211", ZAI),
    ("overloaded", "overloaded_error", ANTHROPIC),
    ("overloaded", "engine_overloaded_error", MOONSHOT),
    ("overloaded", "ModelServingError", ALIBABA),
    ("overloaded", "1312", ZAI),
    ("overloaded", "base_resp 1041", MINIMAX),
    ("request_too_large", "request_too_large", ANTHROPIC),
    ("timeout", "timeout_error", ANTHROPIC),
    ("timeout", "DEADLINE_EXCEEDED", VERTEX),
    ("timeout", "RequestTimeOut", ALIBABA),
    ("timeout", "base_resp 1001", MINIMAX),
    ("conflict", "conflict_error", ANTHROPIC),
    ("auth", "authentication_error", ANTHROPIC),
    ("auth", "invalid_api_key", OPENAI),
    ("auth", "InvalidApiKey", ALIBABA),
    ("auth", "invalid_authentication_error", MOONSHOT),
    ("auth", "incorrect_api_key_error", MOONSHOT),
    ("auth", "API_KEY_INVALID", GOOGLE),
    ("auth", "UNAUTHENTICATED", VERTEX),
    ("auth", "UnrecognizedClientException", BEDROCK),
    ("auth", "ExpiredTokenException", BEDROCK),
    ("auth", "wrong_api_key", CEREBRAS),
    ("auth", "base_resp 1004", MINIMAX),
    ("auth", "base_resp 2049", MINIMAX),
    *(("auth", code, ZAI) for code in ("1000", "1001", "1002", "1003", "1004")),
    *(("auth", code, ZAI) for code in ("1110", "1111", "1112", "1121")),
    *(("rate_limit", code, ZAI) for code in ("1302", "1303", "1304", "1305", "1308", "1310", "1313")),
    ("rate_limit", "base_resp 1002", MINIMAX),
    ("rate_limit", "base_resp 1039", MINIMAX),
    ("rate_limit", "Throttling", ALIBABA),
    ("rate_limit", "Throttling.RateQuota", ALIBABA),
    ("rate_limit", "Throttling.BurstRate", ALIBABA),
    ("rate_limit", "Throttling.AllocationQuota", ALIBABA),
    ("rate_limit", "limit_requests", ALIBABA),
    ("rate_limit", "ThrottlingException", BEDROCK),
)
"""(kind, code or type, source). Codes match exactly, apart from upper and lower case. `base_resp N` is MiniMax's."""

_VAGUE_CODES: tuple[tuple[ErrorKind, str, str], ...] = (
    ("not_found", "not_found_error", ANTHROPIC),
    ("rate_limit", "rate_limit_exceeded", OPENAI),
    ("rate_limit", "rate_limit_error", ANTHROPIC),
    ("rate_limit", "rate_limit_reached_error", MOONSHOT),
    ("rate_limit", "RESOURCE_EXHAUSTED", GOOGLE),
    ("permission", "permission_error", ANTHROPIC),
    ("permission", "permission_denied_error", MOONSHOT),
    ("permission", "PERMISSION_DENIED", GOOGLE),
    ("overloaded", "UNAVAILABLE", GOOGLE),
    ("invalid_request", "base_resp 2013", MINIMAX),
    *(("invalid_request", code, ZAI) for code in ("1210", "1212", "1213", "1214", "1215")),
    ("invalid_request", "unsupported_parameter", OPENAI),
    ("invalid_request", "unsupported_value", OPENAI),
    ("invalid_request", "invalid_value", OPENAI),
    ("invalid_request", "missing_required_parameter", OPENAI),
    ("invalid_request", "unknown_parameter", OPENAI),
    ("invalid_request", "invalid_type", OPENAI),
    ("server_error", "server_error", OPENAI),
    ("server_error", "internal_server_error", OPENAI),
    ("server_error", "api_error", ANTHROPIC),
    ("server_error", "unavailable_error", LLAMA_CPP),
    ("server_error", "INTERNAL", GOOGLE),
    ("server_error", "base_resp 1000", MINIMAX),
    ("server_error", "base_resp 1024", MINIMAX),
)
"""(kind, code or type, source) of codes that say less than a known text. `invalid_request_error` is missing on purpose:
endpoints use it for every error of the caller, including bad credentials and an exhausted quota."""

_TEXTS: tuple[tuple[ErrorKind, str, str], ...] = (
    # A rate: these say "too many tokens" or "quota" of a minute.
    ("rate_limit", r"too many (?:tokens|requests),? (?:please )?(?:wait|try|slow|retry)", BEDROCK),
    ("rate_limit", r"rate[ -]?limit(?:s|ed|ing)?\b", OPENAI),
    ("rate_limit", r"too many (?:concurrent )?requests", OPENROUTER),
    ("rate_limit", r"requests? per (?:second|minute|hour|day)|tokens per (?:second|minute|hour|day)", GROQ),
    ("rate_limit", r"quota exceeded for (?:quota )?(?:metric|aiplatform)", GOOGLE),
    ("rate_limit", r"you exceeded your current quota", GOOGLE),
    ("rate_limit", r"\bresource (?:has been )?exhausted\b", VERTEX),
    ("rate_limit", r"max (?:organization )?(?:concurrency|rpm|tpm)", MOONSHOT),
    ("rate_limit", r"request was throttled|\bthrottl(?:ed|ing)\b", BEDROCK),
    # An empty purse.
    ("quota", r"credit balance (?:is )?too low|credit balance", ANTHROPIC),
    ("quota", r"specified (?:api|workspace api) usage limits?", ANTHROPIC),
    ("quota", r"insufficient[_ ](?:account )?(?:balance|credits?|funds)", DEEPSEEK),
    ("quota", r"used all (?:of )?(?:its |your |the )?available credits|monthly spending limit", XAI),
    ("quota", r"(?:no|not have any|doesn't have any) credits\b|out of credits|no credits remaining", XAI),
    ("quota", r"^key limit exceeded", OPENROUTER),
    ("quota", r"requires more credits|never purchased credits|can only afford \d+", OPENROUTER),
    ("quota", r"(?:account|wallet) (?:balance )?(?:is )?(?:in arrears|overdue|not in good standing)", ALIBABA),
    ("quota", r"no resource package|please recharge|balance (?:is )?not enough|recharge your account", ZAI),
    ("quota", r"余额不足|欠费|额度不足|额度已用尽", NEW_API),
    ("quota", r"free (?:tier|quota|allocated quota) .{0,40}(?:exhausted|exceeded|used up)", ALIBABA),
    ("quota", r"spend(?:ing)? limit (?:has been |was )?(?:reached|exceeded|hit)|exceeded your .{0,20}spend", TOGETHER),
    ("quota", r"billing hard limit|check your plan and billing details$", OPENAI),
    ("quota", r"budget has been exceeded|exceeded budget", LITELLM),
    ("quota", r"exceeded your monthly included credits|monthly included credits", TGI),
    ("quota", r"account is suspended.{0,80}(?:balance|billing|payment|recharge)", MOONSHOT),
    ("quota", r"payment (?:method )?(?:is )?required|add a payment method|unpaid invoice", FIREWORKS),
    ("quota", r"usage limit (?:has been )?(?:exceeded|reached) for (?:this|your) (?:api key|account|month)", PORTKEY),
    # Never fits into a minute's allowance or into a body.
    ("request_too_large", r"^request too large\b", OPENAI),
    ("request_too_large", r"request (?:entity|body|payload) (?:is )?too large|payload too large", ANTHROPIC),
    ("request_too_large", r"request exceeds the maximum (?:allowed )?(?:size|number of bytes)", ANTHROPIC),
    ("request_too_large", r"request payload size exceeds", GOOGLE),
    # The context window.
    ("context_length", r"maximum context length|context[_ ]length[_ ]exceeded", OPENAI),
    ("context_length", r"exceeds the context window", OPENAI),
    ("context_length", r"prompt (?:is )?too long", ANTHROPIC),
    ("context_length", r"exceed context limit|exceed the context limit", ANTHROPIC),
    ("context_length", r"input token count\b.{0,60}exceeds the maximum", GOOGLE),
    ("context_length", r"input (?:is )?too long", BEDROCK),
    ("context_length", r"exceeds? the (?:model's )?maximum (?:number of )?(?:input )?tokens", VERTEX),
    ("context_length", r"too many input tokens|max(?:imum)? input tokens", BEDROCK),
    ("context_length", r"too many tokens(?!,? per)", COHERE),
    ("context_length", r"maximum prompt length", XAI),
    ("context_length", r"reduce the length of (?:the|your) (?:messages|prompt|input)", GROQ),
    ("context_length", r"too large for model with \d+ maximum context", MISTRAL),
    ("context_length", r"prompt contains \d+ tokens.{0,80}(?:too large|maximum)", MISTRAL),
    ("context_length", r"exceeded model token limit", MOONSHOT),
    ("context_length", r"prompt exceeds max(?:imum)? (?:context )?length|Prompt 超长|prompt exceeds the length", ZAI),
    ("context_length", r"range of input length should be", ALIBABA),
    ("context_length", r"context window exceeds limit", MINIMAX),
    ("context_length", r"prompt token count of \d+ exceeds the limit", COPILOT),
    ("context_length", r"input tokens exceed (?:the configured limit|the limit)", OPENAI),
    ("context_length", r"`?inputs`? (?:tokens|must have less than)|`max_new_tokens` must be", TGI),
    ("context_length", r"exceeds the available context size|context size has been exceeded", LLAMA_CPP),
    ("context_length", r"greater than the context length|context (?:length )?of only \d+", LM_STUDIO),
    ("context_length", r"exceed(?:s|ed)? (?:the )?(?:max(?:imum)? )?(?:context|model)[_ ]len(?:gth)?", OLLAMA),
    ("context_length", r"longer than the model'?s? (?:max(?:imum)? )?(?:context|sequence|model) length", SGLANG),
    ("context_length", r"longer than the maximum model length|maximum model length", VLLM),
    ("context_length", r"tokens? (?:in|of) (?:the )?(?:request|prompt|input).{0,40}(?:exceed|more than)", FIREWORKS),
    ("context_length", r"current length is \d+ while limit is \d+", CEREBRAS),
    ("context_length", r"exceeds? (?:this |the )?model'?s? context|context (?:window|size|length)", TOGETHER),
    ("context_length", r"token limit (?:exceeded|of)|exceeds? (?:the )?token limit|token limit", PORTKEY),
    # Moderation.
    ("content_filter", r"content (?:management )?policy|content filter", AZURE),
    ("content_filter", r"inappropriate content|data inspection", ALIBABA),
    (
        "content_filter",
        r"flagged (?:by|as|for) |violat(?:es|ing|ed) (?:our )?usage (?:policy|policies|guidelines)",
        XAI,
    ),
    ("content_filter", r"content exists risk|high[ -]risk", DEEPSEEK),
    ("content_filter", r"blocked by (?:content|safety|our safety|guardrail)|safety system", OPENAI),
    ("content_filter", r"(?:input|output|prompt) new_sensitive|敏感内容", MINIMAX),
    # Credentials, where the status is not 401.
    ("auth", r"api[ _-]?key (?:is )?(?:not valid|invalid|expired|not found|missing)", GOOGLE),
    ("auth", r"(?:invalid|incorrect|malformed|missing|expired|unknown) (?:or missing )?api[ _-]?key", XAI),
    ("auth", r"(?:invalid|incorrect) (?:x-api-key|authentication|credentials|bearer token|token provided)", ANTHROPIC),
    ("auth", r"(?:security token|authentication token).{0,40}(?:invalid|expired|非法)", BEDROCK),
    ("auth", r"no auth credentials found|user not found", OPENROUTER),
    ("auth", r"invalid token|无效的令牌", NEW_API),
    # The model's name.
    ("model_not_found", r"^model: \S+$", ANTHROPIC),
    ("model_not_found", r"\bmodels?/\S{1,200} is not (?:found|supported)", GOOGLE),
    ("model_not_found", r"^no endpoints found(?: for [^\n]{1,200})?\.?$", OPENROUTER),
    ("model_not_found", r"not a valid model|no allowed providers are available for the selected model", OPENROUTER),
    ("model_not_found", r"\bmodel\b[^\n]{0,120}(?:does ?n[o']t exist|not found|is not available)", OPENAI),
    ("model_not_found", r"(?:no such|unknown|invalid|unsupported) model\b", DEEPSEEK),
    ("model_not_found", r"\bmodel\b[^\n]{0,120}(?:not exist|has been (?:decommissioned|deprecated|retired))", GROQ),
    ("model_not_found", r"provided model identifier is invalid|model identifier is invalid", BEDROCK),
    ("model_not_found", r"unable to access model|no available channel for model|模型不存在", NEW_API),
    ("model_not_found", r"could ?n[o']t find (?:the )?model|not found the model", MOONSHOT),
    # Overload.
    ("overloaded", r"\boverloaded\b|over capacity|at capacity|model is (?:currently )?busy", GROQ),
    ("overloaded", r"experiencing high (?:demand|load|traffic)|high demand", GOOGLE),
    # Parameters, so that they count as known.
    ("invalid_request", r"(?:unsupported|unrecognized|unknown|unexpected) (?:parameter|value|argument|field)", OPENAI),
    ("invalid_request", r"extra inputs are not permitted|extra_forbidden|not (?:supported|permitted)", ANTHROPIC),
    ("invalid_request", r"field required|is required|must be|should be|cannot be|not allowed", VLLM),
)
"""(kind, regular expression, source), in upper or lower case."""

_BAD_INPUT: frozenset[int | None] = frozenset({None, 400, 404, 413, 422})
_STATUSES: Mapping[ErrorKind, frozenset[int | None]] = {
    "rate_limit": frozenset({None, 429}),
    "quota": frozenset({None, 400, 401, 402, 403, 404, 413, 422, 429, 432, 500, 503}),
    "request_too_large": frozenset({None, 400, 413, 422, 429}),
    "context_length": _BAD_INPUT | {500},
    "content_filter": _BAD_INPUT | {403, 451},
    "auth": frozenset({None, 400, 403, 404, 422}),
    "model_not_found": _BAD_INPUT | {403, 410},
    "overloaded": frozenset({None, 503, 529}),
    "invalid_request": frozenset({None, 400, 404, 422}),
}
"""Statuses at which a text decides, by kind; None is an error inside an answer."""
_SERVER_ERROR_TEXTS = ("available context size", "context size has been exceeded", "n_ctx")
"""The only texts about the context window that decide at status 500, which an endpoint may mend by itself."""
_ALLOWANCE_STATUSES = frozenset({413, 429})
_ALLOWANCE = re.compile(r"\blimit:?\s*([\d,]{1,15})\b.{0,80}?\brequested:?\s*([\d,]{1,15})", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class Wording:
    """One row of the table: what an endpoint says, and the kind of error that it means."""

    kind: ErrorKind
    said: str
    """A code, or the regular expression of a text."""
    source: str
    """The documentation or the source code that contains the wording."""


CODES: Mapping[str, Wording] = {
    code.lower(): Wording(kind=kind, said=code, source=source) for kind, code, source in reversed(_CODES)
}
"""Exact codes in lower case."""
VAGUE_CODES: Mapping[str, Wording] = {
    code.lower(): Wording(kind=kind, said=code, source=source) for kind, code, source in _VAGUE_CODES
}
"""Vague codes in lower case."""
TEXTS: tuple[tuple[re.Pattern[str], Wording], ...] = tuple(
    (re.compile(text, re.IGNORECASE), Wording(kind=kind, said=text, source=source)) for kind, text, source in _TEXTS
)
"""Texts in their order."""


def find_code_kind(words: Iterable[str]) -> ErrorKind | None:
    """The kind that an exact code among *words* means; None if none is known."""
    return next((CODES[key].kind for word in words if (key := word.lower()) in CODES), None)


def find_vague_kind(words: Iterable[str]) -> ErrorKind | None:
    """The kind that a vague code among *words* means; None if none is known."""
    return next((VAGUE_CODES[key].kind for word in words if (key := word.lower()) in VAGUE_CODES), None)


def find_text_kind(status: int | None, text: str) -> ErrorKind | None:
    """The kind that *text* means in a response with *status* (None: inside an answer); None if no row matches."""
    if status in _ALLOWANCE_STATUSES and exceeds_allowance(text):
        return "request_too_large"
    for pattern, wording in TEXTS:
        if status in _STATUSES[wording.kind] and pattern.search(text):
            if status == 500 and wording.kind == "context_length" and not _says_context(text):
                continue
            return wording.kind
    return None


def exceeds_allowance(text: str) -> bool:
    """True if *text* names an allowance and a single request that is larger, so that no waiting helps."""
    numbers = _ALLOWANCE.search(text)
    if numbers is None:
        return False
    limit, requested = (int(number.replace(",", "") or 0) for number in numbers.groups())
    return requested > limit > 0


def _says_context(text: str) -> bool:
    return any(words in text.lower() for words in _SERVER_ERROR_TEXTS)
