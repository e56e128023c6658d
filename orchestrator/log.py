"""Log: events with fields, written to stderr with `-v`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from store.secrets.redactor import Redactor
from store.secrets.scanner import mask_secrets


class Log(Protocol):
    """Function that logs an event: its dotted name in the past tense, and its fields."""

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Log the event."""


def discard_event(event: str, /, **fields: Any) -> None:
    """Log nothing."""


def open_log(redactor: Redactor, *, form: str, color: bool) -> Log:
    """Open a log on stderr in the *form* `console` or `json`; secrets are redacted."""
    import structlog  # noqa: PLC0415 - slow to import, and only `-v` needs it

    render: Callable[..., Any] = (
        structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=color)
    )

    def redact_fields(_logger: object, _method: str, fields: Any) -> Any:
        return redactor.redact_json(fields)

    def scan_line(logger: object, method: str, fields: Any) -> str:
        return mask_secrets(str(render(logger, method, fields)))

    logger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), redact_fields, scan_line],
    )

    def log_event(event: str, /, **fields: Any) -> None:
        logger.info(event, **fields)

    return log_event
