"""What a daemon configuration may say beyond its types: names that lead somewhere, conditions and schemas that can be
used, flows in which every node can be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from orchestrator.lab.formats.flow_graph import ASKING, graph_problems
from orchestrator.programs import objection
from orchestrator.yaml_values import (
    MAX_COUNT,
    between,
    connection,
    entries,
    filled,
    get,
    items,
    known,
    name_problem,
    schema_findings,
)
from providers.decisions import cel
from providers.decisions.prompts import BadTemplate, places
from providers.decisions.schema import BadSchema, Schema
from providers.registry import BUILT_IN, provider_names
from store.documents.positions import DocumentPath, Finding
from store.documents.structure import Problem, show, suggest
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
    answer: Schema | None = None
    """Of a model's answer; None where the schema is wrong."""


@attrs.frozen(kw_only=True)
class CapabilityOutline:
    """What is known of a capability, whether it is right or not."""

    input: Schema | None
    nodes: tuple[NodeOutline, ...]


class FlowRules:
    """Looks over one document; `findings` and `outlines` hold what it saw."""

    def __init__(self, document: YamlDocument, *, base: Path, path: str | None) -> None:
        self.document = document
        self.base = base
        self.path = path
        self.findings: list[Finding] = []
        self.outlines: dict[str, CapabilityOutline] = {}
        self.kinds: dict[str, str] = {name: name for name in BUILT_IN}
        """Of each backend; a kind's own name is its default instance."""

    @property
    def names_known(self) -> bool:
        """Whether the backends are told in a way that they can be looked up in."""
        value = self.document.value
        return isinstance(value, dict) and isinstance(value.get("backends", {}), dict)

    def check(self) -> None:
        """Look at everything."""
        value = self.document.value
        for name, backend in entries(value, "backends"):
            self._backend(name, backend, ("backends", name))
        if get(value, "capabilities", dict) == {}:
            self._tell([(("capabilities",), "expected at least one capability")])
        for name, capability in entries(value, "capabilities"):
            self._capability(name, capability, ("capabilities", name))

    def _tell(self, problems: Iterable[Problem]) -> None:
        """Keep what a rule of `yaml_values` says."""
        self.findings += [self.document.finding(path, message) for path, message in problems]

    def _backend(self, name: str, backend: Json, at: DocumentPath) -> None:
        self._tell(name_problem(name, at))
        kind = get(backend, "kind", str) or name
        self.kinds[name] = kind
        if kind not in BUILT_IN and kind not in provider_names():
            where = (*at, "kind") if get(backend, "kind", str) else at
            kinds = provider_names()
            hint = f"{suggest(kind, kinds)}; expected one of {', '.join(kinds)}"
            self._tell([(where, f"unknown backend kind {show(kind)}{hint}")])
        self._tell(connection(backend, "base_url", at))

    def _capability(self, name: str, capability: Json, at: DocumentPath) -> None:
        self._tell(name_problem(name, at))
        self._tell(between(capability, "min_confidence", at, 0, 1))
        asked = self._schema(capability, "input_schema", at)
        decided = self._schema(capability, "output_schema", at)
        if get(capability, "flow", list) == []:
            self._tell([((*at, "flow"), "expected at least one node")])
        nodes: list[tuple[int, Mapping[str, Json]]] = [
            (index, node) for index, node in items(capability, "flow") if isinstance(node, dict)
        ]
        names = {str(node.get("id")): node.get("decides") is not False for _, node in nodes}
        outlines = [
            outline
            for index, node in nodes
            if (outline := self._node(node, (*at, "flow", index), names, decided)) is not None
        ]
        self.outlines[name] = CapabilityOutline(input=asked, nodes=tuple(outlines))
        self._tell(graph_problems(nodes, (*at, "flow")))

    def _schema(self, of: Json, key: str, at: DocumentPath) -> Schema | None:
        """The JSON Schema at *key*, where there is one."""
        value = get(of, key, dict)
        if value is None:
            return None
        try:
            return Schema(value)
        except BadSchema as bad:
            self._tell([((*at, key, *bad.path), f"no JSON Schema: {bad.message}")])
            return None

    def _node(
        self, node: Mapping[str, Json], at: DocumentPath, names: Mapping[str, bool], decided: Schema | None
    ) -> NodeOutline | None:
        """Check a node by itself; None where it has no id or an unknown kind. *names* tells which nodes decide."""
        kind, name = get(node, "kind", str), get(node, "id", str)
        if name is not None:
            self._tell(name_problem(name, (*at, "id")))
        answer: Schema | None = None
        other: str | None = None
        if kind == "rule":
            self._rule(node, at, decided)
        elif kind in ASKING:
            self._tell(between(node, "timeout_ms", at, 1, MAX_TIMEOUT_MS))
            self._tell(between(node, "min_confidence", at, 0, 1))
            if kind == "model":
                answer = self._model(node, at, names)
                other = get(node, "backend", str)
            else:
                self._specialist(node, at)
                other = get(node, "provider", str)
        if name is None or kind not in ("rule", *ASKING):
            return None
        return NodeOutline(id=name, kind=kind, other=other, answer=answer)

    def _rule(self, node: Mapping[str, Json], at: DocumentPath, decided: Schema | None) -> None:
        self._tell(filled(node, "when", at))
        when = get(node, "when", str)
        if when is not None and when.strip():
            self.findings += compiled(self.document, (*at, "when"), when, cel.RULE_VARIABLES)
        if decided is not None and "decision" in node:
            value = node["decision"]
            problems = decided.problems(value)
            self.findings += schema_findings(self.document, (*at, "decision"), value, problems, schema="output_schema")

    def _model(self, node: Mapping[str, Json], at: DocumentPath, names: Mapping[str, bool]) -> Schema | None:
        for key in ("prompt", "model"):
            self._tell(filled(node, key, at))
        for key in ("system", "prompt"):
            self._template(node, key, at, names)
        self._tell(between(node, "max_output_tokens", at, 1, MAX_COUNT))
        backend = get(node, "backend", str)
        if backend is not None and backend not in self.kinds and self.names_known:
            self._tell([((*at, "backend"), no_backend(backend, self.kinds))])
        answer = self._schema(node, "answer", at)
        if answer is not None and backend is not None and self.kinds.get(backend) == "typesafe":
            from providers.endpoints.typesafe import problems_of

            self._tell(
                ((*at, "answer"), f"cannot be asked of a typesafe backend: {line}")
                for line in problems_of(node["answer"])
            )
        return answer

    def _template(self, node: Mapping[str, Json], key: str, at: DocumentPath, names: Mapping[str, bool]) -> None:
        text = get(node, key, str)
        if text is None:
            return
        try:
            named = places(text)
        except BadTemplate as error:
            line = text.count("\n", 0, error.offset) + 1
            column = error.offset - (text.rfind("\n", 0, error.offset) + 1) + 1
            finding = self.document.finding_in((*at, key), error.message, line=line, column=column, excerpt="")
            self.findings.append(finding)
            return
        for root, *steps in named:
            if root != "answers" or not steps:
                continue
            path = f"answers.{steps[0]}"
            if steps[0] not in names:
                self._tell([((*at, key), f"{path}: there is no node {show(steps[0])}{suggest(steps[0], names)}")])
            elif names[steps[0]]:
                self._tell([((*at, key), f"{path}: only nodes with 'decides: false' leave an answer to later ones")])

    def _specialist(self, node: Mapping[str, Json], at: DocumentPath) -> None:
        self._tell(filled(node, "provider", at))
        self._tell(filled(node, "confidence", at))
        self._tell(connection(node, "url", at))
        command = get(node, "command", list)
        if command is None:
            return
        if not command:
            self._tell([((*at, "command"), "expected a program and its arguments, got an empty array")])
        for index, argument in enumerate(command):
            if isinstance(argument, str) and "\0" in argument:
                self._tell([((*at, "command", index), "an argument cannot hold a NUL character")])
            elif index == 0 and isinstance(argument, str):
                problem = objection(argument, base=self.base, path=self.path)
                if problem is not None:
                    self._tell([((*at, "command", 0), problem)])


def compiled(
    document: YamlDocument, at: DocumentPath, text: str, variables: Mapping[str, cel.VariableType]
) -> Iterator[Finding]:
    """What keeps the CEL at *at* from being compiled: with a caret, and where it can be, at the very place."""
    try:
        cel.compile(text, variables)
    except cel.Uncompilable as error:
        excerpt = error.pointed()
        yield document.finding_in(at, error.message, line=error.line or 0, column=error.column or 0, excerpt=excerpt)


def no_backend(name: str, kinds: Mapping[str, str]) -> str:
    """What is said of a backend that is not there; *kinds* are those that are."""
    return f"there is no backend {show(name)}{suggest(name, kinds)}; backends: {known(kinds)}"
