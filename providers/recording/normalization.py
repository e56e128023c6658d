"""Normalisation of recordings: replaces texts that vary between runs, such as paths and ids, by placeholders.

Paths and ids of a run are known exactly and are restored when a recording is replayed elsewhere. A suite's own rules
(`replayNormalize`) only affect comparison: the texts that they replace cannot be restored.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs

from providers.base import Assignment, Message, Request
from providers.recording.material import material, message
from store.errors import EvalctlError
from store.events import Json

WORKSPACE = "<evalctl:workspace>"
RUN = "<evalctl:run>"
SWEEP = "<evalctl:sweep>"

PATIENCE_S = 1.0
"""Seconds that one rule may take on one text."""


@attrs.frozen(kw_only=True)
class Rule:
    """A `replayNormalize` rule: matches of *pattern* are replaced by the literal text *replace* before comparison."""

    pattern: str
    replace: str

    def to_json(self) -> dict[str, Json]:
        """The form in a suite's file."""
        return {"pattern": self.pattern, "replace": self.replace}


@attrs.define(slots=False)
class RuleTooSlow(EvalctlError):
    """A suite's rule took too long on a text."""

    pattern: str

    def __str__(self) -> str:
        return f"replayNormalize: {self.pattern!r} took more than {PATIENCE_S:g} s on one text; simplify the pattern"


@attrs.frozen
class Places:
    """Placeholders for a run's own paths and ids, in both directions."""

    pairs: tuple[tuple[str, str], ...]
    """(actual text, placeholder); a text that contains another one comes first."""

    @classmethod
    def of(cls, task: Assignment) -> Places:
        """The placeholders of a run: workspace (its home directory lies beside it), marker and sweep id."""
        sweep = task.marker.partition("/")[0]
        pairs = [(str(task.workspace), WORKSPACE), (task.marker, RUN), (sweep, SWEEP)]
        return cls(tuple(pair for pair in pairs if pair[0]))

    def hide(self, text: str) -> str:
        """Replace the run's own texts by placeholders."""
        for actual, stand_in in self.pairs:
            text = text.replace(actual, stand_in)
        return text

    def show(self, text: str) -> str:
        """Restore the run's own texts from placeholders: the reverse of `hide`."""
        if "<evalctl:" in text:
            for actual, stand_in in self.pairs:
                text = text.replace(stand_in, actual)
        return text


class Normalizer:
    """Normalises one run's requests. Caches messages, since every request repeats the transcript."""

    def __init__(self, places: Places, rules: Sequence[Rule]) -> None:
        self._places = places
        self._rules = [(re.compile(rule.pattern), rule) for rule in rules]
        self._seen: list[tuple[Message, Json]] = []

    def material(self, request: Request) -> dict[str, Json]:
        """The request's material without the run's own texts.

        Raises:
            RuleTooSlow: a rule took too long.
        """
        seen = self._seen
        same = 0
        for known, said in zip(seen, request.messages, strict=False):
            if known[0] is not said:
                break
            same += 1
        del seen[same:]
        seen += [(said, self.text_of(message(said))) for said in request.messages[same:]]
        plain = material(attrs.evolve(request, messages=()))
        # tools are fixed by the harness and contain no texts of a run
        return plain | {
            "instructions": self._text(plain["instructions"]),
            "messages": [normal for _, normal in seen],
        }

    def text_of(self, value: Json) -> Json:
        """Normalise every text in a JSON value; keys stay."""
        return mapped(value, self._text)

    def _text(self, text: str) -> str:
        text = self._places.hide(text)
        for pattern, rule in self._rules:
            with _in_time(rule.pattern):
                text = pattern.sub(lambda _, word=rule.replace: word, text)  # type: ignore[misc]  # a bound default
        return text


def mapped(value: Json, change: Callable[[str], str]) -> Json:
    """Copy a JSON value with *change* applied to every text; keys stay."""
    match value:
        case str():
            return change(value)
        case dict():
            return {key: mapped(inner, change) for key, inner in value.items()}
        case list() | tuple():
            return [mapped(inner, change) for inner in value]
        case _:
            return value


@contextmanager
def _in_time(pattern: str) -> Iterator[None]:
    """Raise `RuleTooSlow` after `PATIENCE_S` seconds.

    The `re` engine checks for signals while it matches. Python delivers signals only to the main thread, in which runs
    execute; in any other thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def too_slow(_number: int, _frame: object) -> None:
        raise RuleTooSlow(pattern)

    before = signal.signal(signal.SIGALRM, too_slow)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
