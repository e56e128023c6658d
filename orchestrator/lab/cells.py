"""The cells of a lab's plan: a fixture under a target, with what answers it offline, or why it is not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

from orchestrator.lab.model import LabCase, Mode, Target
from orchestrator.lab.selection import Selection
from providers.decisions.model import Capability, Node, RuleNode
from store.events import Json

SkipReason = Literal["mode", "no_cassette", "stale"]


@attrs.frozen(kw_only=True)
class Skip:
    """Why a cell's runs are skipped."""

    reason: SkipReason
    message: str


@attrs.frozen(kw_only=True)
class Cell:
    """One fixture under one target."""

    case: LabCase
    target: str
    """A target's id, or `replay`."""
    capability: Capability
    """Aimed at the target; as it is configured for `replay`."""
    aim: Target | None = None
    """None for `replay`."""
    recorded: str | None = None
    """SHA-256 (hex) of the cassette that is played; None where none is."""
    skip: Skip | None = None
    """Why it is not run at all."""
    unanswered: Skip | None = None
    """Why its run is skipped when a node is asked that nothing answers; only offline."""

    @property
    def key(self) -> tuple[str, str]:
        """Case and variant, as claims name them."""
        return self.case.case_id, self.target

    def to_document(self) -> dict[str, Json]:
        """What the flow is, down to the last prompt: the measured configuration."""
        capability = self.capability
        return {
            "inputSchema": capability.input_schema,
            "outputSchema": capability.output_schema,
            "minConfidence": capability.min_confidence,
            "flow": [{"kind": node.kind, **attrs.asdict(node)} for node in capability.flow],
        }


def list_live_cells(
    capabilities: Mapping[str, Capability], selection: Selection, mode: Mode = "live"
) -> Iterator[Cell]:
    """Every fixture under every target; those that do not run in *mode* are skipped."""
    for fixture in selection.cases:
        for target in selection.targets:
            yield Cell(
                case=fixture,
                target=target.id,
                aim=target,
                capability=capabilities[fixture.capability].replace_model(target.backend, target.model),
                skip=find_mode_skip(fixture, mode),
            )


def find_mode_skip(case: LabCase, mode: Mode) -> Skip | None:
    """The reason not to run *fixture* in *mode*, if there is one."""
    if mode in case.modes:
        return None
    return Skip(reason="mode", message=f"its modes are {', '.join(case.modes)}")


def count_max_calls(capability: Capability) -> int:
    """The most answers that one run of the flow asks for; retries come on top.

    A node's fallback is tried only when the node abstains or fails; what decides ends the flow.
    """
    nodes = {node.id: node for node in capability.flow}
    reached_by_fallback = {node.fallback for node in capability.list_asking_nodes() if node.fallback is not None}
    most_after = 0
    for main in reversed([node for node in capability.flow if node.id not in reached_by_fallback]):
        most_after = _count_max_calls_from(main.id, nodes, most_after)
    return most_after


def _count_max_calls_from(node_id: str, nodes: Mapping[str, Node], calls_after: int) -> int:
    node = nodes[node_id]
    if isinstance(node, RuleNode):
        return calls_after
    fallback = _count_max_calls_from(node.fallback, nodes, calls_after) if node.fallback is not None else 0
    return 1 + max(fallback, 0 if node.decides else calls_after)
