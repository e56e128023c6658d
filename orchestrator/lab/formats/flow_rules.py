"""The rules of a daemon configuration beyond its types: known names, valid conditions and schemas, reachable nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from orchestrator.lab.formats.flow_graph import CALLING_KINDS, find_graph_problems
from orchestrator.programs import find_program_fault
from orchestrator.yaml_values import (
    MAX_COUNT,
    check_connection,
    check_id,
    check_not_empty,
    check_range,
    find_schema_problems,
    get_typed,
    iterate_entries,
    iterate_items,
    list_known,
)
from providers.decisions import cel
from providers.decisions.prompts import BadTemplate, list_placeholders
from providers.decisions.schema import BadSchema, JsonSchema
from providers.registry import BUILT_IN_PROVIDERS, list_provider_names
from store.documents.positions import DocumentPath, DocumentProblem
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.documents.yaml import YamlDocument
from store.events import Json

MAX_TIMEOUT_MS = 600_000


@attrs.frozen(kw_only=True)
class NodeOutline:
    """The outline of a node, which exists even if its flow has findings."""

    id: str
    kind: str
    other: str | None
    """Its second name in a fixture's `replay`: its backend, or the `provider` of a specialist."""
    answer: JsonSchema | None = None
    """The schema of a model's answer; None if the schema is invalid."""


@attrs.frozen(kw_only=True)
class CapabilityOutline:
    """The outline of a capability, which exists even if it has findings."""

    input: JsonSchema | None
    nodes: tuple[NodeOutline, ...]


class FlowRules:
    """Checks one document; collects `findings` and `outlines`."""

    def __init__(self, document: YamlDocument, *, base: Path, path: str | None) -> None:
        self.document = document
        self.base = base
        self.path = path
        self.findings: list[DocumentProblem] = []
        self.outlines: dict[str, CapabilityOutline] = {}
        self.kinds: dict[str, str] = {name: name for name in BUILT_IN_PROVIDERS}
        """The kind of each backend by name; a kind's own name is its default backend."""

    @property
    def names_known(self) -> bool:
        """Return whether the document's backends can be looked up by name."""
        value = self.document.value
        return isinstance(value, dict) and isinstance(value.get("backends", {}), dict)

    def check_flow(self) -> None:
        """Check all backends and capabilities."""
        value = self.document.value
        for name, backend in iterate_entries(value, "backends"):
            self._check_backend(name, backend, ("backends", name))
        if get_typed(value, "capabilities", dict) == {}:
            self._add_problems([(("capabilities",), "expected at least one capability")])
        for name, capability in iterate_entries(value, "capabilities"):
            self._check_capability(name, capability, ("capabilities", name))

    def _add_problems(self, problems: Iterable[PathMessage]) -> None:
        """Add the problems that a rule of `yaml_values` found."""
        self.findings += [self.document.locate_problem(path, message) for path, message in problems]

    def _check_backend(self, name: str, backend: Json, at: DocumentPath) -> None:
        self._add_problems(check_id(name, at))
        kind = get_typed(backend, "kind", str) or name
        self.kinds[name] = kind
        if kind not in BUILT_IN_PROVIDERS and kind not in list_provider_names():
            where = (*at, "kind") if get_typed(backend, "kind", str) else at
            kinds = list_provider_names()
            hint = f"{suggest_nearest(kind, kinds)}; expected one of {', '.join(kinds)}"
            self._add_problems([(where, f"unknown backend kind {describe_value(kind)}{hint}")])
        self._add_problems(check_connection(backend, "base_url", at))

    def _check_capability(self, name: str, capability: Json, at: DocumentPath) -> None:
        self._add_problems(check_id(name, at))
        self._add_problems(check_range(capability, "min_confidence", at, 0, 1))
        input_schema = self._read_schema(capability, "input_schema", at)
        output_schema = self._read_schema(capability, "output_schema", at)
        if get_typed(capability, "flow", list) == []:
            self._add_problems([((*at, "flow"), "expected at least one node")])
        nodes: list[tuple[int, Mapping[str, Json]]] = [
            (index, node) for index, node in iterate_items(capability, "flow") if isinstance(node, dict)
        ]
        names = {str(node.get("id")): node.get("decides") is not False for _, node in nodes}
        outlines = [
            outline
            for index, node in nodes
            if (outline := self._check_node(node, (*at, "flow", index), names, output_schema)) is not None
        ]
        self.outlines[name] = CapabilityOutline(input=input_schema, nodes=tuple(outlines))
        self._add_problems(find_graph_problems(nodes, (*at, "flow")))

    def _read_schema(self, of: Json, key: str, at: DocumentPath) -> JsonSchema | None:
        """Read the JSON Schema at *key*; None if it is missing or invalid."""
        value = get_typed(of, key, dict)
        if value is None:
            return None
        try:
            return JsonSchema(value)
        except BadSchema as bad:
            self._add_problems([((*at, key, *bad.path), f"invalid JSON Schema: {bad.message}")])
            return None

    def _check_node(
        self, node: Mapping[str, Json], at: DocumentPath, names: Mapping[str, bool], output_schema: JsonSchema | None
    ) -> NodeOutline | None:
        """Check a node by itself; return None if it has no id or an unknown kind.

        *names* holds for each node of the flow whether it decides.
        """
        kind, name = get_typed(node, "kind", str), get_typed(node, "id", str)
        if name is not None:
            self._add_problems(check_id(name, (*at, "id")))
        answer: JsonSchema | None = None
        other: str | None = None
        if kind == "rule":
            self._check_rule(node, at, output_schema)
        elif kind in CALLING_KINDS:
            self._add_problems(check_range(node, "timeout_ms", at, 1, MAX_TIMEOUT_MS))
            self._add_problems(check_range(node, "min_confidence", at, 0, 1))
            if kind == "model":
                answer = self._check_model(node, at, names)
                other = get_typed(node, "backend", str)
            else:
                self._check_specialist(node, at)
                other = get_typed(node, "provider", str)
        if name is None or kind not in ("rule", *CALLING_KINDS):
            return None
        return NodeOutline(id=name, kind=kind, other=other, answer=answer)

    def _check_rule(self, node: Mapping[str, Json], at: DocumentPath, output_schema: JsonSchema | None) -> None:
        self._add_problems(check_not_empty(node, "when", at))
        when = get_typed(node, "when", str)
        if when is not None and when.strip():
            self.findings += check_expression(self.document, (*at, "when"), when, cel.RULE_VARIABLES)
        if output_schema is not None and "decision" in node:
            value = node["decision"]
            problems = output_schema.find_problems(value)
            self.findings += find_schema_problems(
                self.document, (*at, "decision"), value, problems, schema="output_schema"
            )

    def _check_model(self, node: Mapping[str, Json], at: DocumentPath, names: Mapping[str, bool]) -> JsonSchema | None:
        for key in ("prompt", "model"):
            self._add_problems(check_not_empty(node, key, at))
        for key in ("system", "prompt"):
            self._check_template(node, key, at, names)
        self._add_problems(check_range(node, "max_output_tokens", at, 1, MAX_COUNT))
        backend = get_typed(node, "backend", str)
        if backend is not None and backend not in self.kinds and self.names_known:
            self._add_problems([((*at, "backend"), describe_unknown_backend(backend, self.kinds))])
        answer = self._read_schema(node, "answer", at)
        if answer is not None and backend is not None and self.kinds.get(backend) == "typesafe":
            from providers.endpoints.typesafe import (  # noqa: PLC0415 - most labs have no typesafe backend
                list_schema_problems,
            )

            self._add_problems(
                ((*at, "answer"), f"a typesafe backend cannot answer it: {line}")
                for line in list_schema_problems(node["answer"])
            )
        return answer

    def _check_template(self, node: Mapping[str, Json], key: str, at: DocumentPath, names: Mapping[str, bool]) -> None:
        text = get_typed(node, key, str)
        if text is None:
            return
        try:
            placeholders = list_placeholders(text)
        except BadTemplate as error:
            line = text.count("\n", 0, error.offset) + 1
            column = error.offset - (text.rfind("\n", 0, error.offset) + 1) + 1
            finding = self.document.locate_problem_in_text(
                (*at, key), error.message, line=line, column=column, excerpt=""
            )
            self.findings.append(finding)
            return
        for root, *steps in placeholders:
            if root != "answers" or not steps:
                continue
            path = f"answers.{steps[0]}"
            if steps[0] not in names:
                self._add_problems(
                    [
                        (
                            (*at, key),
                            f"{path}: there is no node {describe_value(steps[0])}{suggest_nearest(steps[0], names)}",
                        )
                    ]
                )
            elif names[steps[0]]:
                self._add_problems(
                    [((*at, key), f"{path}: only nodes with 'decides: false' leave an answer for later nodes")]
                )

    def _check_specialist(self, node: Mapping[str, Json], at: DocumentPath) -> None:
        self._add_problems(check_not_empty(node, "provider", at))
        self._add_problems(check_not_empty(node, "confidence", at))
        self._add_problems(check_connection(node, "url", at))
        command = get_typed(node, "command", list)
        if command is None:
            return
        if not command:
            self._add_problems([((*at, "command"), "expected a program and its arguments, got an empty array")])
        for index, argument in enumerate(command):
            if isinstance(argument, str) and "\0" in argument:
                self._add_problems([((*at, "command", index), "an argument cannot contain a NUL character")])
            elif index == 0 and isinstance(argument, str):
                problem = find_program_fault(argument, base=self.base, path=self.path)
                if problem is not None:
                    self._add_problems([((*at, "command", 0), problem)])


def check_expression(
    document: YamlDocument, at: DocumentPath, text: str, variables: Mapping[str, cel.VariableType]
) -> Iterator[DocumentProblem]:
    """Compile the CEL expression at *at*; yield its error with a caret, at its exact place if that is known."""
    try:
        cel.compile_expression(text, variables)
    except cel.CelCompileError as error:
        excerpt = error.render_excerpt()
        yield document.locate_problem_in_text(
            at, error.message, line=error.line or 0, column=error.column or 0, excerpt=excerpt
        )


def describe_unknown_backend(name: str, kinds: Mapping[str, str]) -> str:
    """Return the message for the unknown backend *name*; *kinds* are the known ones."""
    return f"there is no backend {describe_value(name)}{suggest_nearest(name, kinds)}; backends: {list_known(kinds)}"
