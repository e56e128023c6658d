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

    fixture: LabCase
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
        return self.fixture.case_id, self.target

    def to_document(self) -> dict[str, Json]:
        """What the flow is, down to the last prompt: the measured configuration."""
        capability = self.capability
        return {
            "inputSchema": capability.input_schema,
            "outputSchema": capability.output_schema,
            "minConfidence": capability.min_confidence,
            "flow": [{"kind": node.kind, **attrs.asdict(node)} for node in capability.flow],
        }


def live_cells(capabilities: Mapping[str, Capability], selection: Selection, mode: Mode = "live") -> Iterator[Cell]:
    """Every fixture under every target; those that do not run in *mode* are skipped."""
    for fixture in selection.fixtures:
        for target in selection.targets:
            yield Cell(
                fixture=fixture,
                target=target.id,
                aim=target,
                capability=capabilities[fixture.capability].replace_model(target.backend, target.model),
                skip=not_in(fixture, mode),
            )


def not_in(fixture: LabCase, mode: Mode) -> Skip | None:
    """The reason not to run *fixture* in *mode*, if there is one."""
    if mode in fixture.modes:
        return None
    return Skip(reason="mode", message=f"its modes are {', '.join(fixture.modes)}")


def most_calls(capability: Capability) -> int:
    """The most answers that one run of the flow asks for; retries come on top.

    A node's fallback is tried only when the node abstains or fails; what decides ends the flow.
    """
    nodes = {node.id: node for node in capability.flow}
    reached_by_fallback = {node.fallback for node in capability.list_asking_nodes() if node.fallback is not None}
    most_after = 0
    for main in reversed([node for node in capability.flow if node.id not in reached_by_fallback]):
        most_after = _most_from(main.id, nodes, most_after)
    return most_after


def _most_from(node_id: str, nodes: Mapping[str, Node], most_after: int) -> int:
    node = nodes[node_id]
    if isinstance(node, RuleNode):
        return most_after
    fallback = _most_from(node.fallback, nodes, most_after) if node.fallback is not None else 0
    return 1 + max(fallback, 0 if node.decides else most_after)
