"""What of a run's texts differs from run to run without meaning anything: its places, its name, and what a suite says.

Places and names are known exactly, and they are put back when a recording is played in another place. A suite's own
rules (`replayNormalize`) only decide what is compared: what they replace is gone.
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
"""How long one rule may look at one text."""


@attrs.frozen(kw_only=True)
class Rule:
    """What *pattern* matches is compared as *replace*, which is taken literally."""

    pattern: str
    replace: str

    def to_json(self) -> dict[str, Json]:
        """As a suite's file spells it."""
        return {"pattern": self.pattern, "replace": self.replace}


@attrs.define(slots=False)
class RuleTooSlow(EvalctlError):
    """A rule of a suite took too long over a text."""

    pattern: str

    def __str__(self) -> str:
        return f"replayNormalize: {self.pattern!r} took more than {PATIENCE_S:g} s over one text; make it simpler"


@attrs.frozen
class Places:
    """What stands for a run's own places and names, both ways."""

    pairs: tuple[tuple[str, str], ...]
    """What the run has, and what stands for it; the longer ones first where one holds another."""

    @classmethod
    def of(cls, task: Assignment) -> Places:
        """Those of a run: its workspace (and with it its home, which lies beside it), its marker, its sweep's name."""
        sweep = task.marker.partition("/")[0]
        pairs = [(str(task.workspace), WORKSPACE), (task.marker, RUN), (sweep, SWEEP)]
        return cls(tuple(pair for pair in pairs if pair[0]))

    def hide(self, text: str) -> str:
        """The text as a recording has it."""
        for actual, stand_in in self.pairs:
            text = text.replace(actual, stand_in)
        return text

    def show(self, text: str) -> str:
        """The text as this run has it: the reverse of `hide`."""
        if "<evalctl:" in text:
            for actual, stand_in in self.pairs:
                text = text.replace(stand_in, actual)
        return text


class Normalizer:
    """Writes one run's requests as a recording has them. Remembers messages: a transcript is sent again and again."""

    def __init__(self, places: Places, rules: Sequence[Rule]) -> None:
        self._places = places
        self._rules = [(re.compile(rule.pattern), rule) for rule in rules]
        self._seen: list[tuple[Message, Json]] = []

    def material(self, request: Request) -> dict[str, Json]:
        """The request's material without what is the run's own.

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
        # tools are the harness's own words: nothing of a run is in them
        return plain | {
            "instructions": self._text(plain["instructions"]),
            "messages": [normal for _, normal in seen],
        }

    def text_of(self, value: Json) -> Json:
        """A JSON value with every text of it normalised; keys are left alone."""
        return mapped(value, self._text)

    def _text(self, text: str) -> str:
        text = self._places.hide(text)
        for pattern, rule in self._rules:
            with _in_time(rule.pattern):
                text = pattern.sub(lambda _, word=rule.replace: word, text)  # type: ignore[misc]  # a bound default
        return text


def mapped(value: Json, change: Callable[[str], str]) -> Json:
    """A copy of a JSON value with every text changed; keys stay."""
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
    """End what takes longer than `PATIENCE_S`. The engine of `re` looks for signals while it matches; a signal is only
    ours to have in the main thread, which is where runs are executed.
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
