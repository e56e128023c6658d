"""Error classification: turns a status, headers and a body into a `ProviderError` with its kind and retry delay.

Error codes take precedence over statuses, as they are more exact (a 429 may be an exhausted quota), and statuses over
texts. Texts of bodies are hostile: messages contain at most 200 characters of them, without markup, control characters
and credentials.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import attrs

from providers.errors import ErrorKind, ProviderError
from store.documents.text import blank_unprintable, drop_last_word
from store.events import Json
from store.secrets.redactor import CREDENTIAL_MARK

MAX_EXCERPT_CHARS = 200
"""Characters of a body that go into a message."""
MAX_ERROR_BODY_BYTES = 64 * 1024
"""Bytes of a refusal's body that are read."""
_MAX_READ_CHARS = 8192
"""Characters of a text that are searched and excerpted."""
_MIN_MASKED_CHARS = 8
"""Minimum length of a key's beginning that is masked: endpoints like to echo the beginning of a key."""

RETRYABLE_KINDS: frozenset[ErrorKind] = frozenset(
    {"network", "timeout", "truncated", "bad_payload", "rate_limit", "overloaded", "server_error", "conflict"}
)

_KIND_BY_CODE: Mapping[str, ErrorKind] = {
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",
    "model_context_window_exceeded": "context_length",
    "string_above_max_length": "context_length",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "ResponsibleAIPolicyViolation": "content_filter",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "exceeded_current_quota_error": "quota",
    "insufficient_balance": "quota",
    "billing_error": "quota",
    "tool_use_failed": "bad_tool_call",
    "model_not_found": "model_not_found",
    "model_not_available": "model_not_found",
    "DeploymentNotFound": "model_not_found",
    "not_found_error": "not_found",
    "overloaded_error": "overloaded",
    "engine_overloaded_error": "overloaded",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "rate_limit_reached_error": "rate_limit",
    "request_too_large": "request_too_large",
    "timeout_error": "timeout",
    "conflict_error": "conflict",
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "permission",
    "server_error": "server_error",
    "internal_server_error": "server_error",
    "api_error": "server_error",
    "unavailable_error": "server_error",
}
"""Kind by an error's `code` or `type`. `invalid_request_error` is missing on purpose: endpoints use it for every error
of the caller, including bad credentials and an exhausted quota."""

_KIND_BY_STATUS: Mapping[int, ErrorKind] = {
    400: "invalid_request",
    401: "auth",
    402: "quota",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "request_too_large",
    422: "invalid_request",
    429: "rate_limit",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}

_KIND_BY_TEXT: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
    (
        re.compile(
            r"maximum context length|context (?:size|window|length)|prompt is too long|input is too long"
            r"|token limit|too many (?:input )?tokens",
            re.IGNORECASE,
        ),
        "context_length",
    ),
    (re.compile(r"credit balance|insufficient (?:balance|credits|funds)", re.IGNORECASE), "quota"),
    (re.compile(r"content (?:management )?policy|content filter", re.IGNORECASE), "content_filter"),
    (
        re.compile(
            r"\bmodel\b[^\n]{0,120}(?:does not exist|not found|is not available)"
            r"|(?:no such|unknown|invalid) model\b|not a valid model",
            re.IGNORECASE,
        ),
        "model_not_found",
    ),
)
"""Kind by the message, only for ambiguous statuses (400, 404, 413, 422) and for errors inside a stream."""

_AMBIGUOUS_STATUSES: frozenset[int | None] = frozenset({None, 400, 404, 413, 422})


@attrs.frozen(kw_only=True)
class ErrorBody:
    """An endpoint's error, parsed from any of the usual forms. Not sanitised: `clean_excerpt` does that."""

    message: str = ""
    code: str = ""
    type: str = ""
    status: int | None = None
    """A status from 400 to 599 inside the body."""
    words: frozenset[str] = frozenset()
    """All codes and types, including nested ones."""
    filtered: bool = False
    """True if a moderation layer flagged the input."""


def build_refusal(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[str] = (),
    wall: Callable[[], int] | None = None,
) -> ProviderError:
    """Build the error for a response with a failing *status*.

    *headers* have lower-case names. *secrets* are masked in the message. *wall* (microseconds since 1970 UTC) is the
    clock for a Retry-After date if the response has no Date header.
    """
    text = body[:MAX_ERROR_BODY_BYTES].decode("utf-8", "replace")
    told = parse_error_body(_parse_json(text))
    kind = _classify_error(status, told)
    after = parse_retry_after(headers, wall)
    retryable = kind in RETRYABLE_KINDS or (status == 402 and after is not None)
    should = headers.get("x-should-retry", "").strip().lower()
    if should in {"true", "false"}:
        retryable = should == "true"
    message = clean_excerpt(told.message or text, secrets)
    if 300 <= status < 400:
        message = "the endpoint redirects, and redirects are not followed: give the final base URL"
    return ProviderError(
        kind=kind,
        message=message or f"HTTP status {status} without an explanation",
        retryable=retryable,
        status=status,
        retry_after_s=after,
        # After 408 or a server error, the request may have been processed in part.
        turned_away=300 <= status < 500 and status != 408,
    )


def build_inner_error(error: Json, *, secrets: Iterable[str] = (), mid_stream: bool = True) -> ProviderError:
    """Build the error for an error object inside a response with status 200.

    *error* is the object itself or the document that contains it.
    """
    told = parse_error_body(error)
    kind = _classify_error(told.status, told)
    return ProviderError(
        kind=kind,
        message=clean_excerpt(told.message, secrets) or "the endpoint reports an error without an explanation",
        retryable=kind in RETRYABLE_KINDS,
        mid_stream=mid_stream,
    )


def parse_error_body(document: Json) -> ErrorBody:
    """Find the error in a body: nested, flat, a string, a `detail`, or the first of a list; else an empty one."""
    if isinstance(document, list):
        document = document[0] if document and isinstance(document[0], dict) else {"detail": document}
    if isinstance(document, str):
        return ErrorBody(message=document)
    if not isinstance(document, dict):
        return ErrorBody()
    error = document.get("error")
    if isinstance(error, str) and error:
        return ErrorBody(message=error)
    if not isinstance(error, dict):
        error = document
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    inner = error.get("innererror")
    metadata = error.get("metadata")
    code, kind = _read_string(error.get("code")), _read_string(error.get("type"))
    words = {code, kind, _read_string(inner.get("code")) if isinstance(inner, dict) else ""}
    return ErrorBody(
        message=message if isinstance(message, str) else json.dumps(message, ensure_ascii=False),
        code=code,
        type=kind,
        status=next(filter(None, (_read_status(error.get(key)) for key in ("status_code", "code", "status"))), None),
        words=frozenset(words - {""}),
        filtered=isinstance(metadata, dict) and bool(metadata.get("flagged_input") or metadata.get("reasons")),
    )


def parse_retry_after(headers: Mapping[str, str], wall: Callable[[], int] | None = None) -> float | None:
    """Parse the delay in seconds of `retry-after-ms` or `retry-after` (a number or a date); None if absent.

    A date is compared with the response's own `date`, so that a wrong local clock does no harm; a past date gives 0.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            value = float(headers.get(name, ""))
        except ValueError:
            continue
        if math.isfinite(value):
            return max(0.0, value / unit)
    at = _parse_date(headers.get("retry-after", ""))
    if at is None:
        return None
    now = _parse_date(headers.get("date", ""))
    if now is None and wall is not None:
        now = wall() / 1e6
    return None if now is None else max(0.0, at - now)


def clean_excerpt(text: str, secrets: Iterable[str] = ()) -> str:
    """At most 200 characters of *text* on one line: credentials masked, markup and control characters removed."""
    text = mask_secrets(text[:MAX_ERROR_BODY_BYTES], secrets)[:_MAX_READ_CHARS]
    if _MARKUP.search(text):
        text = html.unescape(_TAG.sub(" ", _SCRIPT_OR_STYLE.sub(" ", text)))
        # Unescaping may have joined the characters of a credential.
        text = mask_secrets(text, secrets)
    text = " ".join(blank_unprintable(text).split())
    return text if len(text) <= MAX_EXCERPT_CHARS else drop_last_word(text[: MAX_EXCERPT_CHARS - 1]) + "…"


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Mask the secrets in *text*, and beginnings of a secret from 8 characters on."""
    for secret in sorted({secret for secret in secrets if secret}, key=len, reverse=True):
        text = text.replace(secret, CREDENTIAL_MARK)
        head = secret[:_MIN_MASKED_CHARS]
        if len(secret) <= _MIN_MASKED_CHARS or head not in text:
            continue
        first, *others = text.split(head)
        kept = [first]
        for other in others:
            shared = 0
            while shared < len(other) and secret.startswith(head + other[: shared + 1]):
                shared += 1
            kept += [CREDENTIAL_MARK, other[shared:]]
        text = "".join(kept)
    return text


_MARKUP = re.compile(r"<(?:!doctype|[a-z][a-z0-9]*[\s>/])", re.IGNORECASE)
_SCRIPT_OR_STYLE = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")


def _classify_error(status: int | None, told: ErrorBody) -> ErrorKind:
    # 1. Credentials: endpoints also call these invalid requests.
    if status == 401:
        return "auth"
    # 2. The error code.
    for word in (told.code, told.type, *sorted(told.words)):
        if word in _KIND_BY_CODE:
            kind = _KIND_BY_CODE[word]
            # A request that exceeds the allowance of a whole minute will not fit later either.
            return "request_too_large" if status == 413 and kind == "rate_limit" else kind
    if told.filtered and status in {400, 403}:
        return "content_filter"
    # 3. The message, if the status is ambiguous.
    if status in _AMBIGUOUS_STATUSES:
        for pattern, kind in _KIND_BY_TEXT:
            if pattern.search(told.message[:_MAX_READ_CHARS]):
                return kind
    # 4. The status.
    if status is None:
        return "invalid_request" if told.type == "invalid_request_error" else "server_error"
    return _KIND_BY_STATUS.get(status) or ("server_error" if status >= 500 else "invalid_request")


def _read_string(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _read_status(value: Json) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


def _parse_date(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
