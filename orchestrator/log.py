"""Log lines: events with fields on stderr, for those who ask with `-v`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from store.secrets.redactor import Redactor
from store.secrets.scanner import scanned


class Log(Protocol):
    """Takes an event's dotted name in the past tense, and its fields."""

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Log it."""


def silent(event: str, /, **fields: Any) -> None:
    """Say nothing."""


def open_log(redactor: Redactor, *, form: str, color: bool) -> Log:
    """Log lines on stderr, as `console` or `json`, without secrets. Imports structlog."""
    import structlog

    render: Callable[..., Any] = (
        structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=color)
    )

    def redacted(_logger: object, _method: str, fields: Any) -> Any:
        return redactor.json(fields)

    def scanning(logger: object, method: str, fields: Any) -> str:
        return scanned(str(render(logger, method, fields)))

    logger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), redacted, scanning],
    )

    def log(event: str, /, **fields: Any) -> None:
        logger.info(event, **fields)

    return log
