"""Finish reasons: whether the agent can continue from an answer."""

from __future__ import annotations

from providers.base import Answer
from providers.errors import ProviderError


def diagnose_answer(answer: Answer) -> str | None:
    """The reason why the agent cannot continue from *answer*; None if it can.

    Raises:
        ProviderError: the provider reports the answer itself as an error.
    """
    if answer.finish == "error":
        raise ProviderError(
            kind="server_error", message="the answer ended with an error", retryable=False, model=answer.model
        )
    if answer.finish == "content_filter":
        return "content_filter"
    if answer.finish == "refusal" or (answer.refusal and not answer.calls and not answer.text):
        return "refusal"
    return None
