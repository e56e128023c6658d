"""The check for template fields that no schema defines: `{{ input.subjekt }}` silently becomes `null`."""

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
"""Keywords that may define properties beside `properties`; a schema with one of them is not checked."""


def find_unknown_fields(config: Path, file: str, capabilities: Iterable[Capability]) -> Iterator[str]:
    """Yield a warning for each template field of *capabilities* that the schema of its value does not define.

    Args:
        config: the file of the daemon configuration.
        file: its name in messages.
        capabilities: those to check.
    """
    try:
        document = read_yaml(config, name=file)
    except UsageError:  # the file changed since it was read; the reader reports its problems
        return
    for capability in capabilities:
        yield from _check_capability(capability, document)


def find_missing_field(schema: Json, steps: Sequence[str]) -> tuple[str, list[str]] | None:
    """Find the first of *steps* that *schema* does not define, with the fields that it defines there.

    None if every step is defined or the schema leaves it open. Only plain `properties` count, and only if no other
    keyword allows more.
    """
    for step in steps:
        if not isinstance(schema, Mapping) or OPEN_KEYWORDS & schema.keys():
            return None
        fields = schema.get("properties")
        if not isinstance(fields, Mapping) or not fields:
            return None
        if step not in fields:
            required = schema.get("required")
            is_required = isinstance(required, list) and step in required
            closed = schema.get("additionalProperties", False) is False
            return (step, list(fields)) if closed and not is_required and not step.isdecimal() else None
        schema = fields[step]
    return None


def _check_capability(capability: Capability, document: YamlDocument) -> Iterator[str]:
    answers = {node.id: node.answer for node in capability.flow if isinstance(node, ModelNode)}
    for index, node in enumerate(capability.flow):
        if not isinstance(node, ModelNode):
            continue
        for key, template in (("system", node.system), ("prompt", node.prompt)):
            for path in dict.fromkeys(list_placeholders(template)):
                prefix = 1 if path[0] == "input" else 2
                schema = capability.input_schema if prefix == 1 else answers.get(".".join(path[1:2]))
                missing = find_missing_field(schema, path[prefix:])
                if missing is not None:
                    step, fields = missing
                    message = f"{render_line('.'.join(path), 100)}: the schema has no field {render_line(step, 60)!r}"
                    at = ("capabilities", capability.name, "flow", index, key)
                    yield format_problem(
                        document.name,
                        document.locate_problem(at, f"{message}{suggest_nearest(step, fields)}; it becomes null"),
                    )
