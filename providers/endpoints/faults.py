"""Error classification: turns a status, headers and a body into a `ProviderError` with its kind and retry delay.

The codes and texts are rows of `wordings`; both take precedence over the status, as they are more exact (a 429 may be
an exhausted quota). Texts of bodies are hostile: messages contain at most 200 characters of them, without markup,
control characters and credentials.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import attrs

from providers.endpoints.dialects.wordings import find_code_kind, find_text_kind, find_vague_kind
from providers.errors import ErrorKind, ProviderError
from store.documents.text import blank_unprintable, drop_last_word
from store.events import Json
from store.secrets.redactor import CREDENTIAL_MARK, Redactor

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

_TELLING_STATUSES: frozenset[int | None] = frozenset({401, 402, 408, 409, 413})
"""Statuses below 500 that say the kind of an error by themselves, whatever its wording."""
_MAX_WORDING_CHARS = 2000
"""Characters of an unknown wording that are shown."""
_MAX_INNER_ERRORS = 4
"""Levels of errors inside errors that are read."""


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
    inner: str = ""
    """The message of another endpoint's error inside this one."""
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
    document = _parse_json(text)
    told = parse_error_body(document)
    if document is None and not _MARKUP.search(text[:_MAX_READ_CHARS]):
        told = attrs.evolve(told, message=text.strip())
    kind, known = _classify_error(status, told)
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
        wording="" if known else _clean_text(told.message, secrets, _MAX_WORDING_CHARS),
    )


def build_inner_error(error: Json, *, secrets: Iterable[str] = (), mid_stream: bool = True) -> ProviderError:
    """Build the error for an error object inside a response with status 200.

    *error* is the object itself or the document that contains it.
    """
    told = parse_error_body(error)
    kind, known = _classify_error(told.status, told)
    return ProviderError(
        kind=kind,
        message=clean_excerpt(told.message, secrets) or "the endpoint reports an error without an explanation",
        retryable=kind in RETRYABLE_KINDS,
        mid_stream=mid_stream,
        wording="" if known else _clean_text(told.message, secrets, _MAX_WORDING_CHARS),
    )


def find_base_error(document: Mapping[str, Json]) -> dict[str, Json] | None:
    """The error of MiniMax's `base_resp`, which a response with status 200 may contain; None if it reports success."""
    base = document.get("base_resp")
    code = base.get("status_code") if isinstance(base, dict) else None
    if not isinstance(base, dict) or code in (None, 0, "0") or not isinstance(code, int | str):
        return None
    return {"message": base.get("status_msg"), "code": f"base_resp {code}"}


def parse_error_body(document: Json, *, depth: int = 0) -> ErrorBody:
    """Find the error in a body: nested, flat, a string, a `detail`, or the first of a list; else an empty one."""
    if isinstance(document, list):
        document = document[0] if document and isinstance(document[0], dict) else {"detail": document}
    if isinstance(document, str):
        return ErrorBody(message=document)
    if not isinstance(document, dict) or depth > _MAX_INNER_ERRORS:
        return ErrorBody()
    error = document.get("error") or find_base_error(document)
    if not error and isinstance(errors := document.get("errors"), list) and errors:
        error = errors[0]
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, str) and error:
        words = {_read_code(document.get(name)) for name in ("code", "type", "error_type")}
        return ErrorBody(message=error, words=frozenset(words - {""}))
    if not isinstance(error, dict):
        error = document
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    if isinstance(message, dict) and isinstance(error.get("detail"), dict):
        return parse_error_body(message, depth=depth + 1)
    metadata = error.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    inner = _parse_upstream_error(metadata.get("raw"), depth)
    code, kind = _read_code(error.get("code")), _read_code(error.get("type"))
    words = {code, kind, *(_read_code(error.get(name)) for name in ("status", "__type", "error_type", "error_code"))}
    words |= {_read_code(metadata.get("error_type")), *_list_nested_codes(error), *inner.words}
    return ErrorBody(
        message=message if isinstance(message, str) else json.dumps(message, ensure_ascii=False),
        code=code,
        type=kind,
        status=next(filter(None, (_read_status(error.get(key)) for key in ("status_code", "code", "status"))), None),
        words=frozenset(words - {""}),
        filtered=bool(metadata.get("flagged_input") or metadata.get("reasons")),
        inner=inner.message,
    )


def _parse_upstream_error(raw: Json, depth: int) -> ErrorBody:
    """The error of another endpoint, which a gateway quotes as a document or as text."""
    document = _parse_json(raw) if isinstance(raw, str) else raw
    if isinstance(raw, str) and document is None:
        return ErrorBody(message=raw)
    told = parse_error_body(document, depth=depth + 1)
    return attrs.evolve(told, message=f"{told.message}\n{told.inner}".strip())


def _list_nested_codes(error: Mapping[str, Json]) -> list[str]:
    """Codes below the error itself: Azure's inner error, and the reasons in Google's details."""
    inner, details = error.get("innererror"), error.get("details")
    codes = [_read_code(inner.get("code"))] if isinstance(inner, dict) else []
    reasons = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    return codes + [_read_code(detail.get("reason")) for detail in reasons]


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
    return _clean_text(text, secrets, MAX_EXCERPT_CHARS)


def _clean_text(text: str, secrets: Iterable[str], limit: int) -> str:
    text = mask_secrets(text[:MAX_ERROR_BODY_BYTES], secrets)[:_MAX_READ_CHARS]
    if _MARKUP.search(text):
        text = html.unescape(_TAG.sub(" ", _SCRIPT_OR_STYLE.sub(" ", text)))
        # Unescaping may have joined the characters of a credential.
        text = mask_secrets(text, secrets)
    text = " ".join(blank_unprintable(text).split())
    return text if len(text) <= limit else drop_last_word(text[: limit - 1]) + "…"


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Mask the secrets in *text*, their usual encodings, and beginnings of a secret from 8 characters on."""
    secrets = frozenset(secret for secret in secrets if secret)
    text = _make_redactor(secrets).redact_text(text)
    for secret in sorted(secrets, key=len, reverse=True):
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


@lru_cache(maxsize=16)
def _make_redactor(secrets: frozenset[str]) -> Redactor:
    """One for each set of credentials: it knows base64, percent-encoding and the like."""
    return Redactor([("credential", secret) for secret in sorted(secrets)])


_MARKUP = re.compile(r"<(?:!doctype|[a-z][a-z0-9]*[\s>/])", re.IGNORECASE)
_SCRIPT_OR_STYLE = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")


def _classify_error(status: int | None, told: ErrorBody) -> tuple[ErrorKind, bool]:
    """The kind of an error, and whether a row of the table or a telling status says so."""
    text = f"{told.message[:_MAX_READ_CHARS]}\n{told.inner[:_MAX_READ_CHARS]}".strip()
    by_text = find_text_kind(status, text)
    by_words = _classify_by_words(status, told, by_text)
    # Credentials come before everything but an empty purse: endpoints also call these invalid requests.
    if status == 401:
        return ("quota" if by_words == "quota" else "auth"), True
    if by_words is not None:
        return by_words, True
    if status is None:
        invalid = told.type == "invalid_request_error"
        return ("invalid_request" if invalid else "server_error"), invalid and by_text is not None
    kind = _KIND_BY_STATUS.get(status) or ("server_error" if status >= 500 else "invalid_request")
    return kind, by_text is not None or status >= 500 or status < 400 or status in _TELLING_STATUSES


def _classify_by_words(status: int | None, told: ErrorBody, by_text: ErrorKind | None) -> ErrorKind | None:
    """The kind by an exact code, then by text, then by a vague code. A text about parameters counts least."""
    words = [told.code, told.type, *sorted(told.words)]
    by_code, vague = find_code_kind(words), find_vague_kind(words)
    # A request that exceeds the allowance of a whole minute will not fit later either.
    if by_text == "request_too_large" or (status == 413 and "rate_limit" in (by_code, vague)):
        return "request_too_large"
    if by_code is not None:
        return by_code
    if told.filtered and status in {400, 403}:
        return "content_filter"
    return by_text if by_text is not None and by_text != "invalid_request" else vague


def _read_code(value: Json) -> str:
    """A code as text; numbers are codes too unless they are a status."""
    if isinstance(value, int) and not isinstance(value, bool) and not 100 <= value <= 599:
        return str(value) if abs(value) < 10**9 else ""
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
