"""The error of a provider that did not answer, and its kinds. Everything that speaks to an endpoint raises it."""

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
    """A provider did not answer. What it may have consumed all the same is in `usage`."""

    kind: ErrorKind
    message: str
    """Says what happened; holds at most 200 characters of a body, tags stripped, and never a credential."""
    retryable: bool
    status: int | None = None
    retry_after_s: float | None = None
    mid_stream: bool = False
    turned_away: bool = False
    """The request came to nobody who works for money: no connection was had, or the endpoint refused it unread."""
    usage: Usage | None = None
    text: str = ""
    """What had arrived before a stream broke; evidence only."""
    model: str | None = None

    def __str__(self) -> str:
        status = f" (HTTP {self.status})" if self.status is not None else ""
        return f"{self.kind}{status}: {self.message}"
