"""How the counting endpoint answers: what a plan file or the words of a prompt ask for, as one frozen value.

A plan is `{"rules": [{"match": "fix add", "attempt": 1, "turn": 0, "do": {...}}, ...]}`: every rule whose conditions
hold adds its `do`, later ones win. A prompt adds its own with `[[name=value name=value]]`, which wins over the plan.
The names are the fields of `Behaviour`.
"""

from __future__ import annotations

import base64
import json
import random
import re
from typing import Any

import attrs

Json = Any

WORDS = re.compile(r"\[\[([^\]]*)\]\]")
REFERENCE = re.compile(r"\$\{(\w+)\}")


@attrs.frozen(kw_only=True)
class Call:
    """A tool call the endpoint makes; `${sha256}` in a string argument is the field of the newest tool result."""

    name: str
    arguments: dict[str, Json]


@attrs.frozen(kw_only=True)
class Step:
    """One answer of a conversation."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@attrs.frozen(kw_only=True)
class Behaviour:
    """One request's treatment."""

    steps: tuple[Step, ...] = (Step(text="It is done as asked."),)
    """Answers by the number of assistant turns in the request; past the end, the last one again."""
    latency_ms: float | None = None
    """Before the first byte; None takes the endpoint's own."""
    chunks: int = 4
    """Pieces the text is streamed in."""
    chunk_ms: float = 0.0
    """Between pieces."""
    size: int = 0
    """Characters of text that hardly compress, instead of the step's."""
    status: int = 200
    times: int | None = None
    """How often one Idempotency-Key meets `status` before it is answered; None is always."""
    retry_after: float | None = None
    """Seconds, sent as a header with a refusal."""
    hang: bool = False
    """Take the request and never answer."""
    cut: int | None = None
    """Close the connection after so many pieces."""
    abort: bool = False
    """Cut with a reset instead of a clean close."""
    hold: int | None = None
    """Stop after so many pieces (0: before the first byte) until released."""
    hold_file: str = ""
    """A file whose appearance releases the hold too."""
    usage: bool = True

    def step(self, turns: int) -> Step:
        return self.steps[min(turns, len(self.steps) - 1)]


@attrs.frozen(kw_only=True)
class Rule:
    """When a part of a plan holds. Absent conditions always do."""

    match: str = ""
    attempt: int | None = None
    turn: int | None = None
    do: dict[str, Json] = attrs.field(factory=dict)

    def holds(self, prompt: str, attempt: int, turn: int) -> bool:
        return self.match in prompt and self.attempt in (None, attempt) and (self.turn is None or self.turn == turn)


class Plan:
    """The rules of an endpoint; the same combination of rules and words is read once."""

    def __init__(self, document: Json = None) -> None:
        self._rules = tuple(Rule(**rule) for rule in (document or {}).get("rules", ()))
        self._known: dict[tuple[object, ...], Behaviour] = {}

    def behaviour(self, prompt: str, attempt: int, turn: int) -> Behaviour:
        """What *prompt* gets at this attempt and turn."""
        words = WORDS.search(prompt) if "[[" in prompt else None
        held = tuple(i for i, rule in enumerate(self._rules) if rule.holds(prompt, attempt, turn))
        key = (held, words[1] if words else "")
        if (known := self._known.get(key)) is None:
            fields: dict[str, Json] = {}
            for i in held:
                fields |= self._rules[i].do
            if words:
                fields |= dict(_word(word) for word in words[1].split())
            known = self._known[key] = read(fields)
        return known


def read(fields: dict[str, Json]) -> Behaviour:
    """A behaviour from the fields of a plan; an unknown name raises TypeError."""
    fields = dict(fields)
    if "steps" in fields:
        fields["steps"] = tuple(
            Step(
                text=step.get("text", ""),
                calls=tuple(Call(name=call["name"], arguments=call["arguments"]) for call in step.get("calls", ())),
            )
            for step in fields["steps"]
        )
    return Behaviour(**fields)


def _word(word: str) -> tuple[str, Json]:
    name, given, value = word.partition("=")
    if not given:
        return name, True
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def filled(arguments: Json, result: str) -> Json:
    """*arguments* with `${name}` replaced by the fields of *result*, a tool's answer that is a JSON object."""
    if isinstance(arguments, str) and "${" in arguments:
        try:
            fields = json.loads(result)
        except ValueError:
            return arguments
        return REFERENCE.sub(lambda found: str(fields.get(found[1], found[0])), arguments)
    if isinstance(arguments, dict):
        return {name: filled(value, result) for name, value in arguments.items()}
    if isinstance(arguments, list):
        return [filled(value, result) for value in arguments]
    return arguments


def noise(size: int, seed: str) -> str:
    """*size* characters that hardly compress, the same for the same seed."""
    return base64.b64encode(random.Random(seed).randbytes(size * 3 // 4 + 3)).decode("ascii")[:size]
