"""The cells of a lab's sweep plan: a case under a target, with its cassette or the reason to skip it."""

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
    """The reason to skip a cell's runs."""

    reason: SkipReason
    message: str


@attrs.frozen(kw_only=True)
class Cell:
    """A cell of the sweep plan: one case under one target."""

    case: LabCase
    target: str
    """A target's id, or `replay`."""
    capability: Capability
    """With the target's backend and model in every model node; as configured for `replay`."""
    aim: Target | None = None
    """The target that the flow calls; None for `replay`."""
    recorded: str | None = None
    """SHA-256 (hex) of the cassette that answers; None without one."""
    skip: Skip | None = None
    """The reason not to run the cell at all."""
    unanswered: Skip | None = None
    """The reason to skip a run at the first node without a recorded answer; only offline."""

    @property
    def key(self) -> tuple[str, str]:
        """Case id and variant, as in a claim."""
        return self.case.case_id, self.target

    def to_document(self) -> dict[str, Json]:
        """Return the measured configuration: the whole flow with schemas and prompts."""
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
    """List every selected case under every selected target; cases that do not run in *mode* are skipped."""
    for case in selection.cases:
        for target in selection.targets:
            yield Cell(
                case=case,
                target=target.id,
                aim=target,
                capability=capabilities[case.capability].replace_model(target.backend, target.model),
                skip=find_mode_skip(case, mode),
            )


def find_mode_skip(case: LabCase, mode: Mode) -> Skip | None:
    """Return the reason not to run *case* in *mode*; None if it runs."""
    if mode in case.modes:
        return None
    return Skip(reason="mode", message=f"its modes are {', '.join(case.modes)}")


def count_max_calls(capability: Capability) -> int:
    """Count the calls that one run of the flow makes at most, without retries.

    The flow tries a node's fallback only after the node abstains or fails; a node that decides ends the flow.
    """
    nodes = {node.id: node for node in capability.flow}
    reached_by_fallback = {node.fallback for node in capability.list_asking_nodes() if node.fallback is not None}
    calls_after = 0
    for main in reversed([node for node in capability.flow if node.id not in reached_by_fallback]):
        calls_after = _count_max_calls_from(main.id, nodes, calls_after)
    return calls_after


def _count_max_calls_from(node_id: str, nodes: Mapping[str, Node], calls_after: int) -> int:
    node = nodes[node_id]
    if isinstance(node, RuleNode):
        return calls_after
    fallback = _count_max_calls_from(node.fallback, nodes, calls_after) if node.fallback is not None else 0
    return 1 + max(fallback, 0 if node.decides else calls_after)
