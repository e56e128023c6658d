"""Fields that a template names and no schema does: `{{ input.subjekt }}` is filled in with `null` without a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from providers.decisions.excerpts import render_line
from providers.decisions.model import Capability, ModelNode
from providers.decisions.prompts import list_placeholders
from store.documents.positions import format_problem
from store.documents.structure import suggest_nearest
from store.documents.yaml import YamlDocument, read_yaml
from store.errors import UsageError
from store.events import Json

OPEN_KEYWORDS = frozenset(
    {
        "$dynamicRef",
        "$ref",
        "allOf",
        "anyOf",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "oneOf",
        "patternProperties",
        "then",
        "unevaluatedProperties",
    }
)
"""Keywords that may name properties in another way than `properties`: beside one, nothing is said."""


def find_unknown_fields(config: Path, file: str, capabilities: Iterable[Capability]) -> Iterator[str]:
    """A warning for each field in the templates of *capabilities* that the schema of what is asked about does not name.

    Args:
        config: the daemon configuration that they were read from.
        file: what messages call it.
        capabilities: those that are looked at.
    """
    try:
        document = read_yaml(config, name=file)
    except UsageError:  # it was read a moment ago, and what is wrong with it has been told
        return
    for capability in capabilities:
        yield from _check_capability(capability, document)


def find_missing_field(schema: Json, steps: Sequence[str]) -> tuple[str, list[str]] | None:
    """The first of *steps* that a value of *schema* has no field for, and the fields that there are.

    None where every step is named, or where the schema does not say: only plain `properties` are looked at, and only
    while nothing beside them allows more.
    """
    for step in steps:
        if not isinstance(schema, Mapping) or OPEN_KEYWORDS & schema.keys():
            return None
        fields = schema.get("properties")
        if not isinstance(fields, Mapping) or not fields:
            return None
        if step not in fields:
            required = schema.get("required")
            named = isinstance(required, list) and step in required
            closed = schema.get("additionalProperties", False) is False
            return (step, list(fields)) if closed and not named and not step.isdecimal() else None
        schema = fields[step]
    return None


def _check_capability(capability: Capability, document: YamlDocument) -> Iterator[str]:
    answers = {node.id: node.answer for node in capability.flow if isinstance(node, ModelNode)}
    for index, node in enumerate(capability.flow):
        if not isinstance(node, ModelNode):
            continue
        for key, template in (("system", node.system), ("prompt", node.prompt)):
            for path in dict.fromkeys(list_placeholders(template)):
                inside = 1 if path[0] == "input" else 2
                schema = capability.input_schema if inside == 1 else answers.get(".".join(path[1:2]))
                found = find_missing_field(schema, path[inside:])
                if found is not None:
                    step, fields = found
                    message = f"{render_line('.'.join(path), 100)}: the schema names no field {render_line(step, 60)!r}"
                    at = ("capabilities", capability.name, "flow", index, key)
                    yield format_problem(
                        document.name,
                        document.locate_problem(
                            at, f"{message}{suggest_nearest(step, fields)}; what is not there is null"
                        ),
                    )
