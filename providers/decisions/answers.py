"""Structured answers of models and specialists: finds the JSON leniently and validates it strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from providers.base import Answer
from providers.decisions.cel import find_value_problem
from providers.decisions.excerpts import render_line, render_value
from providers.decisions.schema import JsonSchema, summarise_problems
from providers.endpoints.arguments import parse_finite_number, reject_constant
from store.errors import EvalctlError
from store.events import Json

MAX_ANSWER_CHARS = 2**20
"""Maximum length of an answer in characters."""
_MAX_REASON_CHARS = 200

_FENCED_BLOCK = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_OBJECT_START = re.compile(r'\{\s*"')
_EMPTY_OBJECT = re.compile(r"\s*\{\s*\}\s*")
_THOUGHT_TAGS = ("<think>", "</think>")


@attrs.define(slots=False)
class BadAnswer(EvalctlError):
    """An answer does not have the requested form."""

    message: str

    def __str__(self) -> str:
        return self.message


@attrs.frozen
class NodeAnswer:
    """A valid answer with its confidence."""

    answer: Json
    confidence: float | None = None
    """From 0 to 1; None if the answer states none."""


@attrs.frozen
class Abstention:
    """An abstention: the model or specialist does not decide."""

    reason: str


def read_model_answer(answer: Answer, schema: JsonSchema) -> NodeAnswer | Abstention:
    """Read a model's answer: `{"answer": ..., "confidence": 0..1}`, as the whole text, in a fenced block, or as the
    first object in the text. An `answer` of null abstains; other fields are ignored.

    Raises:
        BadAnswer: the model refused, there is no such object, or it violates *schema*.
    """
    if answer.refusal:
        raise BadAnswer(f"the model refused: {render_line(answer.refusal, _MAX_REASON_CHARS)}")
    try:
        document = _extract_object(answer.text)
    except BadAnswer as error:
        if answer.finish == "length":
            raise BadAnswer(f"the answer was cut off at its limit of output tokens: {error.message}") from error
        raise
    if "answer" not in document:
        raise BadAnswer(f"the answer has no field 'answer': {render_value(document)}")
    given = document["answer"]
    if given is None:
        reason = document.get("reason")
        return Abstention(
            render_line(reason, _MAX_REASON_CHARS) if isinstance(reason, str) and reason else "the model abstained"
        )
    confidence = _read_confidence(document.get("confidence"), "confidence")
    if problems := schema.find_problems(given):
        raise BadAnswer(f"the answer violates its schema: {summarise_problems(problems)}")
    return NodeAnswer(given, confidence)


def read_specialist_answer(text: str, confidence: str) -> NodeAnswer | Abstention:
    """Read a specialist's answer: JSON of any form, without other text. `{"abstain": "reason"}` and null abstain;
    *confidence* is the name of the confidence field.

    Raises:
        BadAnswer: it is not JSON, or its confidence is not a number from 0 to 1.
    """
    document = _parse_whole_text(text)
    if document is None:
        return Abstention("the specialist answered null")
    if not isinstance(document, dict):
        return NodeAnswer(document)
    if isinstance(reason := document.get("abstain"), str):
        return Abstention(render_line(reason, _MAX_REASON_CHARS) or "the specialist abstained")
    return NodeAnswer(document, _read_confidence(document.get(confidence), confidence))


def _extract_object(text: str) -> dict[str, Json]:
    """Extract the object at the start of a text, in a fenced block, or else the first one in the text."""
    _check_length(text)
    text = _strip_thoughts(text).strip()
    if not text:
        raise BadAnswer("the answer is empty")
    fenced = None if text.startswith("{") else _FENCED_BLOCK.search(text)
    if fenced is not None:
        text = fenced[1]
    # A broken object is not searched for inner ones, which would only be parts of it.
    begun = _OBJECT_START.search(text)
    if begun is None:
        if _EMPTY_OBJECT.fullmatch(text):
            return {}
        raise BadAnswer(f"there is no JSON object in the answer: {render_value(text)}")
    with _translate_json_errors(text):
        document, _ = _DECODER.raw_decode(text, begun.start())
    checked = _check_document(document)
    assert isinstance(checked, dict)
    return checked


def _strip_thoughts(text: str) -> str:
    """Remove the thoughts (`<think>`) that open models write before their answer."""
    if not text.lstrip().startswith(_THOUGHT_TAGS[0]):
        return text
    _, end, rest = text.partition(_THOUGHT_TAGS[1])
    if not end:
        raise BadAnswer("the answer ends before its thoughts do")
    return rest


def _parse_whole_text(text: str) -> Json:
    _check_length(text)
    with _translate_json_errors(text):
        document = _DECODER.decode(text)
    return _check_document(document)


@contextmanager
def _translate_json_errors(text: str) -> Iterator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadAnswer(f"the answer is not JSON ({where}: {error.msg}): {render_value(text)}") from error
    except ValueError as error:
        raise BadAnswer(f"the answer is not JSON ({render_line(str(error), 120)}): {render_value(text)}") from error
    except RecursionError as error:
        raise BadAnswer("the answer is nested too deeply") from error


def _check_length(text: str) -> None:
    if len(text) > MAX_ANSWER_CHARS:
        raise BadAnswer(f"the answer is longer than {MAX_ANSWER_CHARS >> 20} MiB")


def _check_document(document: Json) -> Json:
    if (problem := find_value_problem(document)) is not None:
        raise BadAnswer(f"the answer {problem}")
    return document


def _read_confidence(given: Json, field: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise BadAnswer(f"{render_line(field, 40)!r} must be a number from 0 to 1, got {render_value(given)}")
    return float(given)


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, item in pairs:
        if name in document:
            raise ValueError(f"the field {render_line(name, 40)!r} appears twice")
        document[name] = item
    return document


_DECODER = json.JSONDecoder(
    object_pairs_hook=_reject_duplicate_keys, parse_constant=reject_constant, parse_float=parse_finite_number
)
