"""What went wrong, told from a status, headers and a body: the kind of a provider's error and when to try again.

Codes and types speak before statuses where they are more exact (a 429 may be an empty purse), statuses before texts.
The texts of bodies are hostile: they are cut to 200 characters, without tags, control characters and credentials.
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
from store.documents.text import blank_unprintable, without_last_word
from store.events import Json
from store.secrets.redactor import CREDENTIAL

MAX_EXCERPT = 200
"""Characters of a body that go into a message."""
MAX_ERROR_BODY = 64 * 1024
"""Bytes of a refusal's body that are read at all."""
_READ = 8192
"""Characters of a text that are looked at for an excerpt."""
_SHORTEST_PIECE = 8
"""A secret's first characters, this many or more, are masked too: endpoints like to echo the beginning of a key."""

RETRYABLE: frozenset[ErrorKind] = frozenset(
    {"network", "timeout", "truncated", "bad_payload", "rate_limit", "overloaded", "server_error", "conflict"}
)

_BY_WORD: Mapping[str, ErrorKind] = {
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
"""What an error's `code` or `type` says by itself. `invalid_request_error` is not here: endpoints put it on everything
that is the caller's, credentials and purse included."""

_BY_STATUS: Mapping[int, ErrorKind] = {
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

_BY_TEXT: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
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
"""Asked only where the status leaves it open: 400, 404, 413, 422, and errors inside a stream."""

_OPEN: frozenset[int | None] = frozenset({None, 400, 404, 413, 422})


@attrs.frozen(kw_only=True)
class ErrorBody:
    """The error an endpoint wrote, whatever shape it gave it. Not cleaned: `excerpt` does that."""

    message: str = ""
    code: str = ""
    type: str = ""
    status: int | None = None
    """A status between 400 and 599 given inside the body."""
    words: frozenset[str] = frozenset()
    """Codes and types, the inner ones included."""
    filtered: bool = False
    """A moderation layer says that it flagged the input."""


def refusal(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[str] = (),
    wall: Callable[[], int] | None = None,
) -> ProviderError:
    """The error that an answer with a failing *status* stands for.

    *headers* have lower-case names. *secrets* are masked in the message. *wall* (microseconds since 1970) serves a
    Retry-After date where the endpoint tells no time of its own.
    """
    text = body[:MAX_ERROR_BODY].decode("utf-8", "replace")
    told = error_body(_json(text))
    kind = _kind(status, told)
    after = retry_after(headers, wall)
    retryable = kind in RETRYABLE or (status == 402 and after is not None)
    should = headers.get("x-should-retry", "").strip().lower()
    if should in {"true", "false"}:
        retryable = should == "true"
    message = excerpt(told.message or text, secrets)
    if 300 <= status < 400:
        message = "the endpoint redirects, and redirects are not followed: give the final base URL"
    return ProviderError(
        kind=kind,
        message=message or f"HTTP status {status} without an explanation",
        retryable=retryable,
        status=status,
        retry_after_s=after,
        # Of 408 and of errors of the server's own nobody knows what had been done by then.
        turned_away=300 <= status < 500 and status != 408,
    )


def inside_answer(error: Json, *, secrets: Iterable[str] = (), mid_stream: bool = True) -> ProviderError:
    """The error that an error object inside an answer with status 200 stands for.

    *error* is the object itself or the document that holds it.
    """
    told = error_body(error)
    kind = _kind(told.status, told)
    return ProviderError(
        kind=kind,
        message=excerpt(told.message, secrets) or "the endpoint reports an error without an explanation",
        retryable=kind in RETRYABLE,
        mid_stream=mid_stream,
    )


def error_body(document: Json) -> ErrorBody:
    """Find the error in a body: nested, flat, a string, a `detail`, or the first of a list; empty if there is none."""
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
    code, kind = _word(error.get("code")), _word(error.get("type"))
    words = {code, kind, _word(inner.get("code")) if isinstance(inner, dict) else ""}
    return ErrorBody(
        message=message if isinstance(message, str) else json.dumps(message, ensure_ascii=False),
        code=code,
        type=kind,
        status=next(filter(None, (_status(error.get(key)) for key in ("status_code", "code", "status"))), None),
        words=frozenset(words - {""}),
        filtered=isinstance(metadata, dict) and bool(metadata.get("flagged_input") or metadata.get("reasons")),
    )


def retry_after(headers: Mapping[str, str], wall: Callable[[], int] | None = None) -> float | None:
    """Seconds the endpoint asks to wait: `retry-after-ms`, else `retry-after` in seconds or as a date; None: not said.

    A date is compared with the endpoint's own `date`, so that a clock that goes wrong here does no harm; a date that
    has passed is 0.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            value = float(headers.get(name, ""))
        except ValueError:
            continue
        if math.isfinite(value):
            return max(0.0, value / unit)
    at = _date(headers.get("retry-after", ""))
    if at is None:
        return None
    now = _date(headers.get("date", ""))
    if now is None and wall is not None:
        now = wall() / 1e6
    return None if now is None else max(0.0, at - now)


def excerpt(text: str, secrets: Iterable[str] = ()) -> str:
    """At most 200 characters of *text* on one line: credentials masked, tags and control characters taken out."""
    text = masked(text[:MAX_ERROR_BODY], secrets)[:_READ]
    if _MARKUP.search(text):
        text = html.unescape(_TAG.sub(" ", _HIDDEN.sub(" ", text)))
        # Unescaping may have brought new characters of a credential together.
        text = masked(text, secrets)
    text = " ".join(blank_unprintable(text).split())
    return text if len(text) <= MAX_EXCERPT else without_last_word(text[: MAX_EXCERPT - 1]) + "…"


def masked(text: str, secrets: Iterable[str]) -> str:
    """*text* without the secrets, and without the beginning of one that is 8 characters or longer."""
    for secret in sorted({secret for secret in secrets if secret}, key=len, reverse=True):
        text = text.replace(secret, CREDENTIAL)
        head = secret[:_SHORTEST_PIECE]
        if len(secret) <= _SHORTEST_PIECE or head not in text:
            continue
        first, *others = text.split(head)
        kept = [first]
        for other in others:
            shared = 0
            while shared < len(other) and secret.startswith(head + other[: shared + 1]):
                shared += 1
            kept += [CREDENTIAL, other[shared:]]
        text = "".join(kept)
    return text


_MARKUP = re.compile(r"<(?:!doctype|[a-z][a-z0-9]*[\s>/])", re.IGNORECASE)
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")


def _kind(status: int | None, told: ErrorBody) -> ErrorKind:
    # 1. Credentials: endpoints call these invalid requests, too.
    if status == 401:
        return "auth"
    # 2. What the endpoint says in one word.
    for word in (told.code, told.type, *sorted(told.words)):
        if word in _BY_WORD:
            kind = _BY_WORD[word]
            # A request that is larger than a whole minute's allowance will not fit later either.
            return "request_too_large" if status == 413 and kind == "rate_limit" else kind
    if told.filtered and status in {400, 403}:
        return "content_filter"
    # 3. What it says in a sentence, where the status has more than one meaning.
    if status in _OPEN:
        for pattern, kind in _BY_TEXT:
            if pattern.search(told.message[:_READ]):
                return kind
    # 4. The status.
    if status is None:
        return "invalid_request" if told.type == "invalid_request_error" else "server_error"
    return _BY_STATUS.get(status) or ("server_error" if status >= 500 else "invalid_request")


def _word(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _status(value: Json) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


def _date(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
