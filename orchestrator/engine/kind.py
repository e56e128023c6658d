"""Port between the engine and a kind of run: the terms of a sweep, the providers it calls, how one run executes.

The engine (`sweep`, `worker`, `dispatch`) knows no kind; each kind implements `RunKind`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import attrs

from orchestrator.engine.attempt import Attempt
from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Waits
from orchestrator.engine.gate.gate import Gate
from orchestrator.engine.gate.requests import AttemptRequests
from orchestrator.engine.gate.stopwatch import Stopwatch
from orchestrator.engine.nouns import KindNouns
from orchestrator.engine.ports import Ledger
from orchestrator.world import World
from providers.base import Provider
from providers.prices import table
from providers.prices.price import Price
from store.events import Json
from store.rows import Caps, Claim, NewSweep


@attrs.frozen(kw_only=True)
class Terms:
    """The terms of a sweep that hold for every kind: resolved once at the edge, stored with the sweep, read back by
    `resume`. A kind extends them with settings of its own.
    """

    k: int = 5
    """Repetitions of every case."""
    seed: int = 0
    """Orders the runs; never sent to a provider."""
    mode: str = "live"
    caps: Caps = attrs.field(factory=Caps)
    prices: table.Prices = attrs.field(factory=dict[str, Price])
    """By model; a model that is not in it has an unknown price."""
    concurrency: int = 4
    """Runs in flight at once in this process."""
    rpm: float | None = None
    """Requests per minute of one account, over all live processes."""
    tpm: float | None = None
    """Tokens per minute: estimated before sending, corrected afterwards."""
    max_wall_s: float | None = None
    """Seconds that this invocation may take."""
    max_wait_s: float = 120.0
    """A Retry-After of more seconds fails at once."""
    max_stall_s: float = 600.0
    """Seconds without progress after which a wait is given up: for a throttled provider, another process, the store."""
    keep: bool = False
    """Whether workspaces stay after their runs."""
    out: str | None = None
    """Directory for the sweep's files; None is the kind's usual place."""

    def to_json(self) -> dict[str, Json]:
        """Encode the terms as they are stored in the sweep's conditions."""
        values = attrs.asdict(self)
        values[table.PRICES_KEY] = table.render_prices(self.prices)
        return values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Decode what `to_json` wrote. Fields of newer versions are left out; missing ones get their defaults."""
        return cls(**cls.read_values(stored))

    @classmethod
    def read_values(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Read the stored values of known fields, with caps and prices decoded."""
        return known_values(cls, stored) | {
            "caps": Caps(**known_values(Caps, stored["caps"])),
            "prices": table.parse_prices(stored.get(table.PRICES_KEY, {})),
        }


def known_values(cls: type[attrs.AttrsInstance], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Select those stored values that are fields of *cls*."""
    names = {field.name for field in attrs.fields(cls)}
    return {name: value for name, value in stored.items() if name in names}


@attrs.frozen(kw_only=True)
class PricedProvider:
    """A provider that runs may call, with its prices."""

    provider: Provider
    prices: table.Prices
    """By model; a model that is not in it has an unknown price."""
    allow_unpriced: bool = False
    """Whether calls are allowed although a cap in USD cannot count them."""
    counts_tokens: bool = True
    """Whether it reads and writes tokens. A program does not."""


@attrs.frozen(kw_only=True)
class RunContext:
    """The resources of one process for the runs that it executes."""

    sweep: str
    gates: Mapping[str, Gate]
    """One for each of `RunKind.providers`, by the same names."""
    ledger: Ledger
    control: Control
    waits: Waits
    scratch: Path
    """A directory for workspaces, removed when the process leaves the sweep."""
    world: World
    say: Callable[[str], None]

    def open_attempt(self, claim: Claim, max_wall_s: float | None = None) -> Attempt:
        """Open the record of an attempt at the claimed run, whose work may take *max_wall_s*."""
        return Attempt(
            claim=claim,
            requests=AttemptRequests(
                key=f"{self.sweep}/{claim.position}/{claim.number}",
                position=claim.position,
                log=self.ledger.open_log(claim),
                watch=Stopwatch(max_wall_s),
            ),
            ledger=self.ledger,
            control=self.control,
            waits=self.waits,
            wall=self.world.wall,
        )


@attrs.frozen(kw_only=True)
class PlanRequest:
    """The facts of a new sweep that its kind does not know by itself."""

    name: str
    command: str
    purpose: str
    planned_at: int
    """Microseconds since 1970 UTC."""
    conditions: Mapping[str, Json]


class RunKind(Protocol):
    """One kind of runs, about one suite or lab."""

    @property
    def settings(self) -> Terms:
        """The terms of the sweep, extended by the kind's own settings."""

    @property
    def nouns(self) -> KindNouns:
        """Its words for messages."""

    @property
    def providers(self) -> Mapping[str, PricedProvider]:
        """The providers that runs may call, by the names that runs use. Never empty."""

    @property
    def content(self) -> Mapping[str, str]:
        """Hashes of all files that the runs are about, by path: `resume` compares them."""

    @property
    def max_run_s(self) -> float:
        """Upper bound in seconds for a run that works as it should."""

    def describe_conditions(self) -> dict[str, Json]:
        """Describe what is measured, for the stored conditions; holds `suite` with `id`, `version`, `root`, `bundled`
        and `content`.
        """

    def plan_sweep(self, request: PlanRequest) -> NewSweep:
        """Lay out every run of the sweep in its order. Pure."""

    def account_of(self, claim: Claim) -> str:
        """The account that needs a free permit before the run starts."""

    def make_executor(self, context: RunContext) -> Callable[[Claim], Awaitable[None]]:
        """Make the function that executes one claimed run, and hands its ending to the ledger whatever happens."""
