"""What a daemon configuration may say beyond its types: names that lead somewhere, conditions and schemas that can be
used, flows in which every node can be reached.
"""

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
    """What is known of a node, whether its flow is right or not."""

    id: str
    kind: str
    other: str | None
    """What a fixture may call it by beside its id: its backend, or the provider that a specialist stands for."""
    answer: JsonSchema | None = None
    """Of a model's answer; None where the schema is wrong."""


@attrs.frozen(kw_only=True)
class CapabilityOutline:
    """What is known of a capability, whether it is right or not."""

    input: JsonSchema | None
    nodes: tuple[NodeOutline, ...]


class FlowRules:
    """Looks over one document; `findings` and `outlines` hold what it saw."""

    def __init__(self, document: YamlDocument, *, base: Path, path: str | None) -> None:
        self.document = document
        self.base = base
        self.path = path
        self.findings: list[DocumentProblem] = []
        self.outlines: dict[str, CapabilityOutline] = {}
        self.kinds: dict[str, str] = {name: name for name in BUILT_IN_PROVIDERS}
        """Of each backend; a kind's own name is its default instance."""

    @property
    def names_known(self) -> bool:
        """Whether the backends are told in a way that they can be looked up in."""
        value = self.document.value
        return isinstance(value, dict) and isinstance(value.get("backends", {}), dict)

    def check_flow(self) -> None:
        """Look at everything."""
        value = self.document.value
        for name, backend in iterate_entries(value, "backends"):
            self._check_backend(name, backend, ("backends", name))
        if get_typed(value, "capabilities", dict) == {}:
            self._add_problems([(("capabilities",), "expected at least one capability")])
        for name, capability in iterate_entries(value, "capabilities"):
            self._check_capability(name, capability, ("capabilities", name))

    def _add_problems(self, problems: Iterable[PathMessage]) -> None:
        """Keep what a rule of `yaml_values` says."""
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
        asked = self._read_schema(capability, "input_schema", at)
        decided = self._read_schema(capability, "output_schema", at)
        if get_typed(capability, "flow", list) == []:
            self._add_problems([((*at, "flow"), "expected at least one node")])
        nodes: list[tuple[int, Mapping[str, Json]]] = [
            (index, node) for index, node in iterate_items(capability, "flow") if isinstance(node, dict)
        ]
        names = {str(node.get("id")): node.get("decides") is not False for _, node in nodes}
        outlines = [
            outline
            for index, node in nodes
            if (outline := self._check_node(node, (*at, "flow", index), names, decided)) is not None
        ]
        self.outlines[name] = CapabilityOutline(input=asked, nodes=tuple(outlines))
        self._add_problems(find_graph_problems(nodes, (*at, "flow")))

    def _read_schema(self, of: Json, key: str, at: DocumentPath) -> JsonSchema | None:
        """The JSON Schema at *key*, where there is one."""
        value = get_typed(of, key, dict)
        if value is None:
            return None
        try:
            return JsonSchema(value)
        except BadSchema as bad:
            self._add_problems([((*at, key, *bad.path), f"no JSON Schema: {bad.message}")])
            return None

    def _check_node(
        self, node: Mapping[str, Json], at: DocumentPath, names: Mapping[str, bool], decided: JsonSchema | None
    ) -> NodeOutline | None:
        """Check a node by itself; None where it has no id or an unknown kind. *names* tells which nodes decide."""
        kind, name = get_typed(node, "kind", str), get_typed(node, "id", str)
        if name is not None:
            self._add_problems(check_id(name, (*at, "id")))
        answer: JsonSchema | None = None
        other: str | None = None
        if kind == "rule":
            self._check_rule(node, at, decided)
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

    def _check_rule(self, node: Mapping[str, Json], at: DocumentPath, decided: JsonSchema | None) -> None:
        self._add_problems(check_not_empty(node, "when", at))
        when = get_typed(node, "when", str)
        if when is not None and when.strip():
            self.findings += check_expression(self.document, (*at, "when"), when, cel.RULE_VARIABLES)
        if decided is not None and "decision" in node:
            value = node["decision"]
            problems = decided.find_problems(value)
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
            from providers.endpoints.typesafe import list_schema_problems

            self._add_problems(
                ((*at, "answer"), f"cannot be asked of a typesafe backend: {line}")
                for line in list_schema_problems(node["answer"])
            )
        return answer

    def _check_template(self, node: Mapping[str, Json], key: str, at: DocumentPath, names: Mapping[str, bool]) -> None:
        text = get_typed(node, key, str)
        if text is None:
            return
        try:
            named = list_placeholders(text)
        except BadTemplate as error:
            line = text.count("\n", 0, error.offset) + 1
            column = error.offset - (text.rfind("\n", 0, error.offset) + 1) + 1
            finding = self.document.locate_problem_in_text(
                (*at, key), error.message, line=line, column=column, excerpt=""
            )
            self.findings.append(finding)
            return
        for root, *steps in named:
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
                    [((*at, key), f"{path}: only nodes with 'decides: false' leave an answer to later ones")]
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
                self._add_problems([((*at, "command", index), "an argument cannot hold a NUL character")])
            elif index == 0 and isinstance(argument, str):
                problem = find_program_fault(argument, base=self.base, path=self.path)
                if problem is not None:
                    self._add_problems([((*at, "command", 0), problem)])


def check_expression(
    document: YamlDocument, at: DocumentPath, text: str, variables: Mapping[str, cel.VariableType]
) -> Iterator[DocumentProblem]:
    """What keeps the CEL at *at* from being compiled: with a caret, and where it can be, at the very place."""
    try:
        cel.compile_expression(text, variables)
    except cel.CelCompileError as error:
        excerpt = error.render_excerpt()
        yield document.locate_problem_in_text(
            at, error.message, line=error.line or 0, column=error.column or 0, excerpt=excerpt
        )


def describe_unknown_backend(name: str, kinds: Mapping[str, str]) -> str:
    """What is said of a backend that is not there; *kinds* are those that are."""
    return f"there is no backend {describe_value(name)}{suggest_nearest(name, kinds)}; backends: {list_known(kinds)}"
