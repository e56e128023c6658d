"""What an answer's end means for the work."""

from __future__ import annotations

from providers.base import Answer
from providers.errors import ProviderError


def broken_off(answer: Answer) -> str | None:
    """Why an answer is not one to go on from; None where it is.

    Raises:
        ProviderError: the provider itself called it an error.
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
