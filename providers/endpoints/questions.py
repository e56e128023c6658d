"""Closed questions (a choice, yes or no, a score on a scale), derived from the JSON Schema of an answer.

The request and answer values of systems that answer such questions, without I/O; `typesafe.py` calls one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, TypeGuard

import attrs

from store.documents.structure import describe_value
from store.events import Json

MAX_OPTIONS = 255
MAX_LEVELS = 10
CRITERIA_KEY = "x-criteria"
"""Keyword of a property: an object with the meaning of each option."""
LEVELS_KEY = "x-levels"
"""Keyword of a property: an array with the levels of a scale from low to high. Levels that are not numbers are answered
by their index, counted from 0.
"""


class UnreadableAnswer(ValueError):
    """An answer does not fit its question; the text explains why."""


@attrs.frozen(kw_only=True)
class Choice:
    """A question with one of several options as its answer."""

    type: ClassVar[str] = "choice"
    name: str
    instructions: str
    options: Mapping[str, Json]
    """Meaning by option; None if it has none."""

    @property
    def criteria(self) -> Json:
        """The options as sent to the endpoint."""
        return dict(self.options)

    def read_value(self, answer: Mapping[str, Json]) -> tuple[Json, float]:
        """Read the option and its confidence (0 to 1).

        Raises:
            Unreadable: it is not one of the options, or has no confidence.
        """
        option = answer.get("choice")
        if not isinstance(option, str) or option not in self.options:
            raise UnreadableAnswer(f"{describe_value(option)} is not one of the options")
        return option, _read_fraction(answer.get("confidence"), "confidence")


@attrs.frozen(kw_only=True)
class YesNo:
    """A question with yes or no as its answer."""

    type: ClassVar[str] = "noul"
    name: str
    instructions: str
    criteria: Json = None

    def read_value(self, answer: Mapping[str, Json]) -> tuple[Json, float]:
        """Read True if yes has a probability of at least 0.5, with the probability of that answer.

        Raises:
            Unreadable: the probability is missing or invalid.
        """
        yes = _read_fraction(answer.get("noul"), "noul")
        return yes >= 0.5, max(yes, 1 - yes)


@attrs.frozen(kw_only=True)
class Score:
    """A question with a level on a scale as its answer."""

    type: ClassVar[str] = "score"
    name: str
    instructions: str
    levels: Sequence[Json]
    """The levels from low to high."""

    @property
    def criteria(self) -> Json:
        """The levels as sent to the endpoint, each as text."""
        return [level if isinstance(level, str) else describe_value(level) for level in self.levels]

    def read_value(self, answer: Mapping[str, Json]) -> tuple[Json, float]:
        """Read the level nearest to the score (the upper one of two) and its confidence (0 to 1).

        Raises:
            Unreadable: the score is outside the scale, or has no confidence.
        """
        score, last = answer.get("score"), len(self.levels) - 1
        if not _is_number(score) or not 0 <= score <= last:
            raise UnreadableAnswer(f"score {describe_value(score)} is not a number from 0 to {last}")
        index = math.floor(score + 0.5)
        level = self.levels[index]
        return level if _is_number(level) else index, _read_fraction(answer.get("confidence"), "confidence")


Question = Choice | YesNo | Score


def derive_questions(schema: Mapping[str, Json]) -> tuple[list[Question], list[str]]:
    """Derive the questions from an answer's JSON Schema, in its order, and the problems that prevent it.

    Each property is a question: an `enum` of strings is a choice, a boolean is yes or no, a number with levels
    (`x-levels`, or an `enum` of numbers in rising order) is a score. Any other property is left out of the answer,
    which is a problem only if it is required.
    """
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or schema.get("type", "object") != "object":
        return [], ["the answer must be an object with properties, each of which is one question"]
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    found: list[Question] = []
    problems: list[str] = []
    for name, described in properties.items():
        asked = _derive_question(name, described if isinstance(described, dict) else {})
        if not isinstance(asked, str):
            found.append(asked)
        elif name in needed:
            problems.append(f"{name}: is required but cannot be asked: {asked}")
    problems += [f"{name}: is required but not defined as a property" for name in needed if name not in properties]
    if not found and not problems:
        problems.append("no property can be asked: none is an enum, a boolean, or a number with levels")
    return found, problems


def read_answers(questions: Sequence[Question], answers: Json) -> tuple[dict[str, Json], float]:
    """Read the answers to *questions* by name, and the lowest confidence among them.

    Raises:
        Unreadable: an answer is missing or does not fit its question.
    """
    if not isinstance(answers, dict):
        raise UnreadableAnswer("there are no answers")
    values: dict[str, Json] = {}
    confidences: list[float] = []
    for question in questions:
        answer = answers.get(question.name)
        if not isinstance(answer, dict):
            raise UnreadableAnswer(f"{question.name!r} is not answered")
        try:
            if answer.get("type", question.type) != question.type:
                raise UnreadableAnswer(f"a {question.type} was asked for, not {describe_value(answer['type'])}")
            for share in _list_probabilities(answer.get("probabilities")):
                _read_fraction(share, "a probability")
            values[question.name], confidence = question.read_value(answer)
        except UnreadableAnswer as error:
            raise UnreadableAnswer(f"{question.name!r}: {error}") from None
        confidences.append(confidence)
    return values, min(confidences)


def _derive_question(name: str, described: Mapping[str, Json]) -> Question | str:
    """Derive the question of a property, or the reason (text) why it cannot be asked."""
    told = described.get("description")
    instructions = told if isinstance(told, str) and told else name
    kind, options, levels, criteria = (described.get(key) for key in ("type", "enum", LEVELS_KEY, CRITERIA_KEY))
    meanings = criteria if isinstance(criteria, dict) else {}
    if kind == "boolean":
        return YesNo(name=name, instructions=instructions, criteria=meanings or None)
    if isinstance(levels, list) and kind in ("integer", "number"):
        return _build_scale(name, instructions, levels)
    if isinstance(options, list) and options and all(map(_is_number, options)):
        if any(upper <= lower for lower, upper in pairwise(options)):
            return "the numbers of its enum are not in rising order"
        return _build_scale(name, instructions, options)
    if isinstance(options, list) and options and all(isinstance(option, str) for option in options):
        return _build_choice(name, instructions, options, meanings)
    return "it is neither an enum of strings, nor a boolean, nor a number with levels"


def _build_choice(name: str, instructions: str, options: Sequence[str], meanings: Mapping[str, Json]) -> Choice | str:
    if len(options) > MAX_OPTIONS:
        return f"it has {len(options)} options, at most {MAX_OPTIONS} are allowed"
    return Choice(name=name, instructions=instructions, options={option: meanings.get(option) for option in options})


def _build_scale(name: str, instructions: str, levels: list[Json]) -> Score | str:
    if not 2 <= len(levels) <= MAX_LEVELS:
        return f"it has {len(levels)} levels, and a scale has from 2 to {MAX_LEVELS}"
    if not all(map(_is_number, levels)) and not all(isinstance(level, str) and level for level in levels):
        return "its levels are neither all numbers nor all words"
    return Score(name=name, instructions=instructions, levels=tuple(levels))


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list_probabilities(probabilities: Json) -> Sequence[Json]:
    """The probabilities of one answer, which are optional."""
    if probabilities is None:
        return ()
    return list(probabilities.values()) if isinstance(probabilities, dict) else [probabilities]


def _read_fraction(value: Json, what: str) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise UnreadableAnswer(f"{what} {describe_value(value)} is not a number from 0 to 1")
    return float(value)
