"""Structured answers: the description of their form, which is the end of a model's instructions."""

from __future__ import annotations

import json
from collections.abc import Mapping

from store.events import Json


def describe_form(schema: Mapping[str, Json]) -> str:
    """Describe the form of an answer that is valid against *schema*, for the model."""
    return (
        'Answer with one JSON object and nothing else: {"answer": ..., "confidence": ...}.\n'
        f"`answer` has to be valid against this JSON Schema: {json.dumps(dict(schema), ensure_ascii=False)}\n"
        "`confidence` is a number from 0 to 1: how likely it is that your answer is right.\n"
        "Where you cannot tell, `answer` is null."
    )
