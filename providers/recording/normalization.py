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
from providers.recording.material import build_material, render_message
from store.errors import EvalctlError
from store.events import Json

WORKSPACE_MARK = "<evalctl:workspace>"
RUN_MARK = "<evalctl:run>"
SWEEP_MARK = "<evalctl:sweep>"

RULE_TIMEOUT_S = 1.0
"""Seconds that one rule may take on one text."""


@attrs.frozen(kw_only=True)
class NormalizeRule:
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
        return (
            f"replayNormalize: {self.pattern!r} took more than {RULE_TIMEOUT_S:g} s on one text; simplify the pattern"
        )


@attrs.frozen
class RunPlaces:
    """Placeholders for a run's own paths and ids, in both directions."""

    pairs: tuple[tuple[str, str], ...]
    """(actual text, placeholder); a text that contains another one comes first."""

    @classmethod
    def from_assignment(cls, task: Assignment) -> RunPlaces:
        """The placeholders of a run: workspace (its home directory lies beside it), marker and sweep id."""
        sweep = task.marker.partition("/")[0]
        pairs = [(str(task.workspace), WORKSPACE_MARK), (task.marker, RUN_MARK), (sweep, SWEEP_MARK)]
        return cls(tuple(pair for pair in pairs if pair[0]))

    def hide_places(self, text: str) -> str:
        """Replace the run's own texts by placeholders."""
        for actual, stand_in in self.pairs:
            text = text.replace(actual, stand_in)
        return text

    def restore_places(self, text: str) -> str:
        """Restore the run's own texts from placeholders: the reverse of `hide_places`."""
        if "<evalctl:" in text:
            for actual, stand_in in self.pairs:
                text = text.replace(stand_in, actual)
        return text


class Normalizer:
    """Normalises one run's requests. Caches messages, since every request repeats the transcript."""

    def __init__(self, places: RunPlaces, rules: Sequence[NormalizeRule]) -> None:
        self._places = places
        self._rules = [(re.compile(rule.pattern), rule) for rule in rules]
        self._seen: list[tuple[Message, Json]] = []

    def build_material(self, request: Request) -> dict[str, Json]:
        """The request's material without the run's own texts.

        Raises:
            RuleTooSlow: a rule took too long.
        """
        seen = self._seen
        same = 0
        for known, message in zip(seen, request.messages, strict=False):
            if known[0] is not message:
                break
            same += 1
        del seen[same:]
        seen += [(message, self.normalize_value(render_message(message))) for message in request.messages[same:]]
        plain = build_material(attrs.evolve(request, messages=()))
        # tools are fixed by the harness and contain no texts of a run
        return plain | {
            "instructions": self._normalize_text(plain["instructions"]),
            "messages": [normal for _, normal in seen],
        }

    def normalize_value(self, value: Json) -> Json:
        """Normalise every text in a JSON value; keys stay."""
        return map_texts(value, self._normalize_text)

    def _normalize_text(self, text: str) -> str:
        text = self._places.hide_places(text)
        for pattern, rule in self._rules:
            with _limit_time(rule.pattern):
                text = pattern.sub(lambda _, word=rule.replace: word, text)  # type: ignore[misc]  # a bound default
        return text


def map_texts(value: Json, change: Callable[[str], str]) -> Json:
    """Copy a JSON value with *change* applied to every text; keys stay."""
    match value:
        case str():
            return change(value)
        case dict():
            return {key: map_texts(inner, change) for key, inner in value.items()}
        case list() | tuple():
            return [map_texts(inner, change) for inner in value]
        case _:
            return value


@contextmanager
def _limit_time(pattern: str) -> Iterator[None]:
    """Raise `RuleTooSlow` after `RULE_TIMEOUT_S` seconds.

    The `re` engine checks for signals while it matches. Python delivers signals only to the main thread, in which runs
    execute; in any other thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def raise_too_slow(_number: int, _frame: object) -> None:
        raise RuleTooSlow(pattern)

    before = signal.signal(signal.SIGALRM, raise_too_slow)
    signal.setitimer(signal.ITIMER_REAL, RULE_TIMEOUT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
