"""The error of a failed request to a model, and its kinds. Everything that sends requests raises it."""

from __future__ import annotations

from typing import Literal

import attrs

from providers.usage import Usage
from store.errors import EvalctlError

ErrorKind = Literal[
    "network",
    "timeout",
    "truncated",
    "bad_payload",
    "rate_limit",
    "overloaded",
    "server_error",
    "conflict",
    "auth",
    "permission",
    "quota",
    "model_not_found",
    "not_found",
    "context_length",
    "content_filter",
    "bad_tool_call",
    "request_too_large",
    "invalid_request",
]


@attrs.define(slots=False, kw_only=True)
class ProviderError(EvalctlError):
    """A request without a complete answer. Tokens that it consumed nevertheless are in `usage`."""

    kind: ErrorKind
    message: str
    """The explanation: at most 200 characters of a body, without markup, and never a credential."""
    retryable: bool
    status: int | None = None
    retry_after_s: float | None = None
    mid_stream: bool = False
    turned_away: bool = False
    """The request was never processed (no connection, or rejected before reading), so it cost nothing."""
    broken_off: bool = False
    """The endpoint reports that it broke the answer off, or reports no end and sent nothing. Retried at most twice."""
    kept_alive: bool = False
    """Only keep-alives arrived until a timeout. Retried as seldom as an endpoint that never answered."""
    wording: str = ""
    """The whole explanation if its kind is guessed from the status, as no known wording says it; else empty."""
    usage: Usage | None = None
    text: str = ""
    """The text received before a stream broke: evidence only."""
    model: str | None = None

    def __str__(self) -> str:
        status = f" (HTTP {self.status})" if self.status is not None else ""
        return f"{self.kind}{status}: {self.message}"
