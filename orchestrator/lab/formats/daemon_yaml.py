"""The reader of the daemon configuration, `config.yaml`: backends, and capabilities with their decision flows.

docs/decision-labs.md describes the format. One error reports every finding, each with line and field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from orchestrator.lab.formats.flow_rules import CapabilityOutline, FlowRules
from orchestrator.yaml_values import format_problems, get_typed, make_refusal, new_yaml_converter, structure_yaml
from providers.decisions.model import Backend, Capability, DaemonConfig, ExecNode, HttpNode, ModelNode, Node, RuleNode
from providers.registry import BUILT_IN_PROVIDERS
from store.documents.structure import make_tagged_union_hook
from store.documents.yaml import read_yaml
from store.errors import UsageError
from store.events import Json

if TYPE_CHECKING:
    from cattrs import Converter

NODE_CLASSES: Mapping[str, type[Node]] = {"rule": RuleNode, "model": ModelNode, "exec": ExecNode, "http": HttpNode}


@attrs.frozen(kw_only=True)
class BackendFile:
    """An entry of `backends`, whose key is its name."""

    kind: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None


@attrs.frozen(kw_only=True)
class CapabilityFile:
    """An entry of `capabilities`, whose key is its name."""

    description: str = ""
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None = None
    min_confidence: float = 0.0
    flow: tuple[Node, ...]


@attrs.frozen(kw_only=True)
class DaemonFile:
    """The document `config.yaml`."""

    schema: Literal["evalctl.hub/1"] = "evalctl.hub/1"
    backends: Mapping[str, BackendFile | None] = attrs.field(factory=dict)
    capabilities: Mapping[str, CapabilityFile]


@attrs.frozen(kw_only=True)
class CheckedDaemon:
    """A daemon configuration with its findings."""

    daemon: DaemonConfig | None
    """None if there are findings."""
    findings: tuple[str, ...]
    capabilities: Mapping[str, CapabilityOutline] | None
    """The outlines by name, even if there are findings; None if the file has no readable capabilities."""
    backends: Mapping[str, str] | None = None
    """The kind of each backend by name; None if the file has no readable backends."""
    content: str = ""
    """SHA-256 of the file, hex."""


def read_daemon(file: Path, *, path: str | None = None) -> DaemonConfig:
    """Read and check the configuration in *file*.

    Args:
        file: the configuration; commands are relative to its directory after links are resolved.
        path: the `PATH` to find programs in; None skips the check of programs.

    Raises:
        UsageError: with every finding, one per line, in the order of the file.
    """
    checked = check_daemon(file, path=path)
    if checked.daemon is None:
        raise make_refusal(checked.findings)
    return checked.daemon


def check_daemon(file: Path, *, path: str | None = None) -> CheckedDaemon:
    """Check the configuration in *file*; return it with its findings. See `read_daemon`."""
    try:
        document = read_yaml(file)
    except UsageError as error:
        return CheckedDaemon(daemon=None, findings=tuple(str(error).splitlines()), capabilities=None)
    structured, mismatches = structure_yaml(document, DaemonFile, _make_converter())
    rules = FlowRules(document, base=file.resolve().parent, path=path)
    rules.check_flow()
    findings = format_problems(document, [*mismatches, *rules.findings])
    return CheckedDaemon(
        daemon=_build_daemon(structured) if structured is not None and not findings else None,
        findings=tuple(findings),
        capabilities=rules.outlines if get_typed(document.value, "capabilities", dict) is not None else None,
        backends=rules.kinds if rules.names_known else None,
        content=hashlib.sha256(document.raw).hexdigest(),
    )


def add_default_backend(daemon: DaemonConfig, name: str) -> DaemonConfig:
    """Return *daemon* with a default backend of the kind *name*, unless it has a backend of that name."""
    if name in daemon.backends or name not in BUILT_IN_PROVIDERS:
        return daemon
    return attrs.evolve(daemon, backends={**daemon.backends, name: Backend(name=name, kind=name)})


def _build_daemon(document: DaemonFile) -> DaemonConfig:
    daemon = DaemonConfig(
        backends={name: _build_backend(name, entry or BackendFile()) for name, entry in document.backends.items()},
        capabilities={
            name: Capability(
                name=name,
                description=entry.description,
                input_schema=entry.input_schema,
                output_schema=entry.output_schema,
                min_confidence=entry.min_confidence,
                flow=entry.flow,
            )
            for name, entry in document.capabilities.items()
        },
    )
    for capability in daemon.capabilities.values():
        for node in capability.flow:
            if isinstance(node, ModelNode):
                daemon = add_default_backend(daemon, node.backend)
    return daemon


def _build_backend(name: str, entry: BackendFile) -> Backend:
    return Backend(name=name, kind=entry.kind or name, base_url=entry.base_url, api_key_env=entry.api_key_env)


@lru_cache(maxsize=1)
def _make_converter() -> Converter:
    converter = new_yaml_converter()

    def structure_node(value: Json, into: Any) -> Any:
        return make_tagged_union_hook(converter, "kind", NODE_CLASSES, NODE_CLASSES.__getitem__)(value, into)

    converter.register_structure_hook_func(lambda into: into == Node, structure_node)
    return converter
