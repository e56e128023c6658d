"""Structured answers of models and specialists: finds the JSON leniently and validates it strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from providers.base import Answer
from providers.decisions.cel import unfit
from providers.decisions.schema import Schema, told
from providers.decisions.shown import line, value
from providers.endpoints.arguments import finite, no_constant
from store.errors import EvalctlError
from store.events import Json

LONGEST_ANSWER = 2**20
"""Maximum length of an answer in characters."""
_LONGEST_REASON = 200

_FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_OBJECT = re.compile(r'\{\s*"')
_EMPTY = re.compile(r"\s*\{\s*\}\s*")
_THOUGHTS = ("<think>", "</think>")


@attrs.define(slots=False)
class BadAnswer(EvalctlError):
    """An answer does not have the requested form."""

    message: str

    def __str__(self) -> str:
        return self.message


@attrs.frozen
class Said:
    """A valid answer with its confidence."""

    answer: Json
    confidence: float | None = None
    """From 0 to 1; None if the answer states none."""


@attrs.frozen
class Abstained:
    """An abstention: the model or specialist does not decide."""

    reason: str


def of_model(answer: Answer, schema: Schema) -> Said | Abstained:
    """Read a model's answer: `{"answer": ..., "confidence": 0..1}`, as the whole text, in a fenced block, or as the
    first object in the text. An `answer` of null abstains; other fields are ignored.

    Raises:
        BadAnswer: the model refused, there is no such object, or it violates *schema*.
    """
    if answer.refusal:
        raise BadAnswer(f"the model refused: {line(answer.refusal, _LONGEST_REASON)}")
    try:
        document = _object_in(answer.text)
    except BadAnswer as error:
        if answer.finish == "length":
            raise BadAnswer(f"the answer was cut off at its limit of output tokens: {error.message}") from error
        raise
    if "answer" not in document:
        raise BadAnswer(f"the answer has no field 'answer': {value(document)}")
    given = document["answer"]
    if given is None:
        reason = document.get("reason")
        return Abstained(line(reason, _LONGEST_REASON) if isinstance(reason, str) and reason else "the model abstained")
    confidence = _confidence(document.get("confidence"), "confidence")
    if found := schema.problems(given):
        raise BadAnswer(f"the answer violates its schema: {told(found)}")
    return Said(given, confidence)


def of_specialist(text: str, confidence: str) -> Said | Abstained:
    """Read a specialist's answer: JSON of any form, without other text. `{"abstain": "reason"}` and null abstain;
    *confidence* is the name of the confidence field.

    Raises:
        BadAnswer: it is not JSON, or its confidence is not a number from 0 to 1.
    """
    document = _strict(text)
    if document is None:
        return Abstained("the specialist answered null")
    if not isinstance(document, dict):
        return Said(document)
    if isinstance(reason := document.get("abstain"), str):
        return Abstained(line(reason, _LONGEST_REASON) or "the specialist abstained")
    return Said(document, _confidence(document.get(confidence), confidence))


def _object_in(text: str) -> dict[str, Json]:
    """Extract the object at the start of a text, in a fenced block, or else the first one in the text."""
    _bounded(text)
    text = _without_thoughts(text).strip()
    if not text:
        raise BadAnswer("the answer is empty")
    fenced = None if text.startswith("{") else _FENCED.search(text)
    if fenced is not None:
        text = fenced[1]
    # A broken object is not searched for inner ones, which would only be parts of it.
    begun = _OBJECT.search(text)
    if begun is None:
        if _EMPTY.fullmatch(text):
            return {}
        raise BadAnswer(f"there is no JSON object in the answer: {value(text)}")
    with _reading(text):
        document, _ = _DECODER.raw_decode(text, begun.start())
    checked = _checked(document)
    assert isinstance(checked, dict)
    return checked


def _without_thoughts(text: str) -> str:
    """Remove the thoughts (`<think>`) that open models write before their answer."""
    if not text.lstrip().startswith(_THOUGHTS[0]):
        return text
    _, end, rest = text.partition(_THOUGHTS[1])
    if not end:
        raise BadAnswer("the answer ends before its thoughts do")
    return rest


def _strict(text: str) -> Json:
    _bounded(text)
    with _reading(text):
        document = _DECODER.decode(text)
    return _checked(document)


@contextmanager
def _reading(text: str) -> Iterator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadAnswer(f"the answer is not JSON ({where}: {error.msg}): {value(text)}") from error
    except ValueError as error:
        raise BadAnswer(f"the answer is not JSON ({line(str(error), 120)}): {value(text)}") from error
    except RecursionError as error:
        raise BadAnswer("the answer is nested too deeply") from error


def _bounded(text: str) -> None:
    if len(text) > LONGEST_ANSWER:
        raise BadAnswer(f"the answer is longer than {LONGEST_ANSWER >> 20} MiB")


def _checked(document: Json) -> Json:
    if (problem := unfit(document)) is not None:
        raise BadAnswer(f"the answer {problem}")
    return document


def _confidence(given: Json, field: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise BadAnswer(f"{line(field, 40)!r} must be a number from 0 to 1, got {value(given)}")
    return float(given)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, item in pairs:
        if name in document:
            raise ValueError(f"the field {line(name, 40)!r} appears twice")
        document[name] = item
    return document


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=no_constant, parse_float=finite)
