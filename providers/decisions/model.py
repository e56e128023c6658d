"""What a daemon configuration says: backends, and capabilities with the flows that decide. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import attrs

from store.events import Json

DEFAULT_TIMEOUT_MS = 60_000


@attrs.frozen(kw_only=True)
class Backend:
    """Somebody who answers model nodes."""

    name: str
    kind: str
    """A provider's name in `providers.registry`; where a file says none, it is the backend's own name."""
    base_url: str | None = None
    api_key_env: str | None = None
    """The variable that holds the credential; None: the kind's usual one, where it is set."""


@attrs.frozen(kw_only=True)
class Rule:
    """Decides without asking anybody, where its condition holds; else the flow goes on."""

    kind: ClassVar[Literal["rule"]] = "rule"
    id: str
    when: str
    """CEL over `input` and `answers` (by node, of the nodes that have answered); has to be true or false."""
    decision: Json


@attrs.frozen(kw_only=True)
class Asking:
    """What the nodes that ask somebody have in common."""

    id: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    """Of one answer."""
    min_confidence: float | None = None
    """Below it, and without any confidence, the node abstains; None: the capability's."""
    fallback: str | None = None
    """The node that is tried when this one abstains or fails; it is reached in no other way."""
    decides: bool = True
    """False: the answer is kept in `answers`, and the flow goes on."""


@attrs.frozen(kw_only=True)
class Model(Asking):
    """Asks a model for an answer of a given form, and how sure it is."""

    kind: ClassVar[Literal["model"]] = "model"
    prompt: str
    """A template: `{{ input.tool_input.command }}`, `{{ answers.triage.queue }}`; what is no string is written as JSON.
    """
    system: str = ""
    """The same; what is said about the answer's form comes after it."""
    backend: str
    model: str
    answer: Mapping[str, Json]
    """JSON Schema of the answer."""
    max_output_tokens: int = 1024


@attrs.frozen(kw_only=True)
class Specialist(Asking):
    """Somebody else's program: JSON in, JSON out. Its whole answer is the decision."""

    provider: str | None = None
    """Another name that a fixture's `replay` may call it by."""
    confidence: str = "confidence"
    """The field of its answer that says how sure it is; where there is none, it says nothing."""
    local: bool = False
    """It costs nothing; else what it costs is unknown."""


@attrs.frozen(kw_only=True)
class Exec(Specialist):
    """A process that is started for each answer: the input on stdin, the answer on stdout."""

    kind: ClassVar[Literal["exec"]] = "exec"
    command: tuple[str, ...]
    """Program and arguments; a program with a `/` is relative to the configuration's directory."""


@attrs.frozen(kw_only=True)
class Http(Specialist):
    """An endpoint that is posted the input."""

    kind: ClassVar[Literal["http"]] = "http"
    url: str
    api_key_env: str | None = None
    """Sent as a bearer token."""


Node = Rule | Model | Exec | Http
AskingNode = Model | Exec | Http


@attrs.frozen(kw_only=True)
class Capability:
    """One kind of decision."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None = None
    min_confidence: float = 0.0
    """Of every node that does not say otherwise; 0 takes any answer, also one without a confidence."""
    flow: tuple[Node, ...]
    """In the order in which they are tried; see `flow.decide`."""

    def asking(self) -> tuple[AskingNode, ...]:
        """The nodes that ask somebody."""
        return tuple(node for node in self.flow if not isinstance(node, Rule))

    def aimed(self, backend: str, model: str) -> Capability:
        """The same flow with *backend* and *model* in every model node."""
        flow = tuple(
            attrs.evolve(node, backend=backend, model=model) if isinstance(node, Model) else node for node in self.flow
        )
        return attrs.evolve(self, flow=flow)

    def asked(self, node: AskingNode) -> str:
        """Whom *node* asks: a backend's name, or a name of its own for a specialist. What `flow.AskOf` is asked by."""
        return node.backend if isinstance(node, Model) else f"{node.kind}:{self.name}/{node.id}"


@attrs.frozen(kw_only=True)
class Daemon:
    """A whole configuration."""

    backends: Mapping[str, Backend]
    capabilities: Mapping[str, Capability]
