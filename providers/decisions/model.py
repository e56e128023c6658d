"""Daemon configuration: backends, and capabilities with their decision flows. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import attrs

from store.events import Json

DEFAULT_ANSWER_TIMEOUT_MS = 60_000


@attrs.frozen(kw_only=True)
class Backend:
    """A provider of models for model nodes."""

    name: str
    kind: str
    """A provider's name in `providers.registry`; by default the backend's own name."""
    base_url: str | None = None
    api_key_env: str | None = None
    """Environment variable of the credential; None: the kind's usual one, if set."""


@attrs.frozen(kw_only=True)
class RuleNode:
    """Rule node: decides by a condition, without any request; if it is false, the flow continues."""

    kind: ClassVar[Literal["rule"]] = "rule"
    id: str
    when: str
    """Boolean CEL expression over `input` and `answers` (answers of earlier nodes by id)."""
    decision: Json


@attrs.frozen(kw_only=True)
class AskingBase:
    """Common fields of model nodes and specialist nodes."""

    id: str
    timeout_ms: int = DEFAULT_ANSWER_TIMEOUT_MS
    """Timeout of one answer in milliseconds."""
    min_confidence: float | None = None
    """Minimum confidence, below or without which the node abstains; None: the capability's."""
    fallback: str | None = None
    """Id of the node that is tried if this one abstains or fails; that node is reached in no other way."""
    decides: bool = True
    """False: the answer is kept in `answers`, and the flow continues."""


@attrs.frozen(kw_only=True)
class ModelNode(AskingBase):
    """Model node: asks a model for a structured answer with a confidence."""

    kind: ClassVar[Literal["model"]] = "model"
    prompt: str
    """Template with placeholders such as `{{ input.tool_input.command }}` and `{{ answers.triage.queue }}`; values
    other than strings are written as JSON."""
    system: str = ""
    """Template of the system prompt; the description of the answer's form is appended."""
    backend: str
    model: str
    answer: Mapping[str, Json]
    """JSON Schema of the answer."""
    max_output_tokens: int = 1024


@attrs.frozen(kw_only=True)
class SpecialistNode(AskingBase):
    """Specialist node: an external program or service, JSON in, JSON out. Its whole answer is the decision."""

    provider: str | None = None
    """Alternative name for it in a fixture's `replay`."""
    confidence: str = "confidence"
    """Name of the confidence field in its answer, which is optional."""
    local: bool = False
    """True if it costs nothing; otherwise its cost is unknown."""


@attrs.frozen(kw_only=True)
class ExecNode(SpecialistNode):
    """Specialist as a process, started for each answer: the input on stdin, the answer on stdout."""

    kind: ClassVar[Literal["exec"]] = "exec"
    command: tuple[str, ...]
    """Program and arguments; a program with a `/` is relative to the configuration's directory."""


@attrs.frozen(kw_only=True)
class HttpNode(SpecialistNode):
    """Specialist as an HTTP endpoint, which receives the input by POST."""

    kind: ClassVar[Literal["http"]] = "http"
    url: str
    api_key_env: str | None = None
    """Environment variable of the bearer token; None sends no token."""


Node = RuleNode | ModelNode | ExecNode | HttpNode
AskingNode = ModelNode | ExecNode | HttpNode


@attrs.frozen(kw_only=True)
class Capability:
    """One kind of decision with its flow."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None = None
    min_confidence: float = 0.0
    """Default minimum confidence of nodes; 0 accepts any answer, even one without a confidence."""
    flow: tuple[Node, ...]
    """Nodes in the order in which they are tried; see `flow.run_flow`."""

    def list_asking_nodes(self) -> tuple[AskingNode, ...]:
        """The nodes that make requests: models and specialists."""
        return tuple(node for node in self.flow if not isinstance(node, RuleNode))

    def replace_model(self, backend: str, model: str) -> Capability:
        """Copy the capability with *backend* and *model* in every model node."""
        flow = tuple(
            attrs.evolve(node, backend=backend, model=model) if isinstance(node, ModelNode) else node
            for node in self.flow
        )
        return attrs.evolve(self, flow=flow)

    def find_provider_name(self, node: AskingNode) -> str:
        """The provider's name of *node* for `flow.AskByName`: a backend's name, or a unique name for a specialist."""
        return node.backend if isinstance(node, ModelNode) else f"{node.kind}:{self.name}/{node.id}"


@attrs.frozen(kw_only=True)
class DaemonConfig:
    """A complete daemon configuration."""

    backends: Mapping[str, Backend]
    capabilities: Mapping[str, Capability]
