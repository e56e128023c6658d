"""The form of an answer that has to be valid against a schema: its description, which ends a model's instructions."""

from __future__ import annotations

import json
from collections.abc import Mapping

from store.events import Json


def describe_form(schema: Mapping[str, Json]) -> str:
    """Tell a model the form of its answer; the end of its instructions."""
    return (
        'Answer with one JSON object and nothing else: {"answer": ..., "confidence": ...}.\n'
        f"`answer` has to be valid against this JSON Schema: {json.dumps(dict(schema), ensure_ascii=False)}\n"
        "`confidence` is a number from 0 to 1: how likely it is that your answer is right.\n"
        "Where you cannot tell, `answer` is null."
    )
