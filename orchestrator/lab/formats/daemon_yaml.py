"""The reader of a daemon configuration, `config.yaml`: backends, and capabilities with the flows that decide.

docs/decision-labs.md describes the format. Everything wrong with a file is told at once, each finding with its place.
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
    """The document."""

    schema: Literal["evalctl.hub/1"] = "evalctl.hub/1"
    backends: Mapping[str, BackendFile | None] = attrs.field(factory=dict)
    capabilities: Mapping[str, CapabilityFile]


@attrs.frozen(kw_only=True)
class CheckedDaemon:
    """A configuration, and what is wrong with it."""

    daemon: DaemonConfig | None
    """None where anything is."""
    findings: tuple[str, ...]
    capabilities: Mapping[str, CapabilityOutline] | None
    """What can be said of them although there are findings; None where nothing is known of them."""
    backends: Mapping[str, str] | None = None
    """The kind of each backend that may be named; the same."""
    content: str = ""
    """SHA-256 of the file, hex."""


def read_daemon(file: Path, *, path: str | None = None) -> DaemonConfig:
    """Read and check the configuration in *file*.

    Args:
        file: the configuration; commands are relative to the directory that it really lies in.
        path: the `PATH` by which programs have to be found; None: programs are not looked for.

    Raises:
        UsageError: with every finding, one per line, in the order of the file.
    """
    checked = check_daemon(file, path=path)
    if checked.daemon is None:
        raise make_refusal(checked.findings)
    return checked.daemon


def check_daemon(file: Path, *, path: str | None = None) -> CheckedDaemon:
    """The configuration in *file* with what is wrong with it; see `read_daemon`."""
    try:
        document = read_yaml(file)
    except UsageError as error:
        return CheckedDaemon(daemon=None, findings=tuple(str(error).splitlines()), capabilities=None)
    read, mismatches = structure_yaml(document, DaemonFile, _make_converter())
    rules = FlowRules(document, base=file.resolve().parent, path=path)
    rules.check_flow()
    findings = format_problems(document, [*mismatches, *rules.findings])
    return CheckedDaemon(
        daemon=_build_daemon(read) if read is not None and not findings else None,
        findings=tuple(findings),
        capabilities=rules.outlines if get_typed(document.value, "capabilities", dict) is not None else None,
        backends=rules.kinds if rules.names_known else None,
        content=hashlib.sha256(document.raw).hexdigest(),
    )


def add_default_backend(daemon: DaemonConfig, name: str) -> DaemonConfig:
    """*daemon* with the default instance of the kind *name*, where it has no backend of that name."""
    if name in daemon.backends or name not in BUILT_IN_PROVIDERS:
        return daemon
    return attrs.evolve(daemon, backends={**daemon.backends, name: Backend(name=name, kind=name)})


def _build_daemon(read: DaemonFile) -> DaemonConfig:
    daemon = DaemonConfig(
        backends={name: _build_backend(name, entry or BackendFile()) for name, entry in read.backends.items()},
        capabilities={
            name: Capability(
                name=name,
                description=entry.description,
                input_schema=entry.input_schema,
                output_schema=entry.output_schema,
                min_confidence=entry.min_confidence,
                flow=entry.flow,
            )
            for name, entry in read.capabilities.items()
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
