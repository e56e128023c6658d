"""Notices about an endpoint's answers, each shown once: unknown wordings, unknown finish words, missing usage."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from providers.base import Answer
from providers.errors import ProviderError
from store.rows import Caps

MAX_WORDINGS = 5
"""Maximum number of unknown wordings that are shown per account."""
_NUMBER_OR_ID = re.compile(r"\S*\d\S*")
_ADVICE = "Please report these words to the project, with the provider's name, so that evalctl learns them."


@attrs.define(kw_only=True)
class AnswerNotices:
    """Shows each notice about one account once."""

    account: str
    say: Callable[[str], None] = lambda _message: None
    _shown: set[str] = attrs.field(factory=set[str], init=False)

    def report_error(self, error: ProviderError) -> None:
        """Show the whole wording of an error whose kind is only guessed from its status."""
        # wordings that differ in numbers and ids are one
        key = _NUMBER_OR_ID.sub("#", error.wording)
        if error.wording and len(self._shown) < MAX_WORDINGS:
            status = f" (HTTP {error.status})" if error.status is not None else ""
            self._say_once(
                f"error {key}",
                f"{self.account}: an error in unknown words{status} counts as {error.kind}: {error.wording} {_ADVICE}",
            )

    def report_answer(self, answer: Answer, caps: Caps) -> None:
        """Show an unknown finish word, and missing usage that makes a cap count upper bounds."""
        if "unknown_finish" in answer.notes and len(self._shown) < MAX_WORDINGS:
            word = (answer.finish_raw or "")[:100]
            self._say_once(
                f"finish {word}",
                f"{self.account}: the finish reason {word!r} is unknown; such answers count as complete. {_ADVICE}",
            )
        if "usage_unreported" in answer.notes and (caps.tokens is not None or caps.nusd is not None):
            self._say_once(
                "usage",
                f"{self.account}: answers report no usage, so each counts with its upper bound against the caps in "
                "tokens and USD. Raise them, or limit the sweep by --max-calls instead.",
            )

    def _say_once(self, key: str, message: str) -> None:
        if key not in self._shown:
            self._shown.add(key)
            self.say(message)
