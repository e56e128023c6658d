"""The run kind of decision labs: each run is a flow that calls the backends and specialists of its capability."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from orchestrator.engine.kind import PlanRequest, PricedProvider, RunContext
from orchestrator.engine.nouns import KindNouns
from orchestrator.lab.cells import Cell
from orchestrator.lab.execute import RECORDED, Decider, OnEnding
from orchestrator.lab.model import Lab
from orchestrator.lab.nouns import NOUNS
from orchestrator.lab.plan import plan_sweep
from orchestrator.lab.settings import LabSettings
from store.events import Json
from store.rows import Claim, NewSweep


@attrs.frozen(kw_only=True)
class LabKind:
    """Implements `orchestrator.engine.kind.RunKind`."""

    lab: Lab
    cells: tuple[Cell, ...]
    settings: LabSettings
    providers: Mapping[str, PricedProvider]
    """By the names of `Capability.find_provider_name`; offline only the player, under the name `recorded`."""
    stored_selection: Mapping[str, Json]
    """Fields that the sweep stores and `resume` reads: the selection (`chosen`) and the folder of run directories
    (`runs`)."""
    on_ending: OnEnding = lambda _cell, _ending: None
    """Called with each ending before it is stored."""
    accounts: Mapping[tuple[str, str], str] = attrs.field(init=False)
    """By cell, the account of the first provider that its flow may call."""

    @accounts.default
    def _accounts(self) -> dict[tuple[str, str], str]:
        """Return the default of `accounts`."""
        first = next(iter(self.providers))
        names = {
            cell.key: [cell.capability.find_provider_name(node) for node in cell.capability.list_asking_nodes()]
            for cell in self.cells
        }
        return {
            key: self.providers[next((name for name in candidates if name in self.providers), first)].provider.account
            for key, candidates in names.items()
        }

    @property
    def nouns(self) -> KindNouns:
        """The nouns of a lab: fixture and target."""
        return NOUNS

    @property
    def content(self) -> Mapping[str, str]:
        """SHA-256 (hex), by path, of `lab.yaml`, the daemon configuration, the fixtures and the played cassettes."""
        played = {
            cell.case.cassette_path(cell.target): cell.recorded for cell in self.cells if cell.recorded is not None
        }
        return {**self.lab.content, **played}

    @property
    def max_run_s(self) -> float:
        """The largest sum of a flow's timeouts, in seconds."""
        totals = (sum(node.timeout_ms for node in cell.capability.list_asking_nodes()) for cell in self.cells)
        return max(totals, default=0) / 1000

    def describe_conditions(self) -> dict[str, Json]:
        """See `orchestrator.engine.kind.RunKind`; the key `lab` holds what only labs have."""
        lab = self.lab
        return {
            "suite": {
                "id": lab.id,
                "version": lab.version,
                "root": str(lab.root),
                "bundled": lab.bundled,
                "content": dict(self.content),
            },
            "lab": {
                "config": str(lab.config),
                "targets": {
                    target.id: {"backend": target.backend, "model": target.model, "local": target.local}
                    for target in lab.targets.values()
                },
                **self.stored_selection,
            },
        }

    def plan_sweep(self, request: PlanRequest) -> NewSweep:
        """See `orchestrator.engine.kind.RunKind`."""
        return plan_sweep(self.lab, self.cells, self.settings, request)

    def account_of(self, claim: Claim) -> str:
        """Return the account of the first provider that the flow may call."""
        return self.accounts[claim.case_id, claim.variant]

    def make_executor(self, context: RunContext) -> Decider:
        """See `orchestrator.engine.kind.RunKind`."""
        return Decider(
            suite_id=self.lab.id,
            cells={cell.key: cell for cell in self.cells},
            context=context,
            measured=RECORDED not in self.providers,
            on_ending=self.on_ending,
        )
