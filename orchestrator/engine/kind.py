"""What a sweep's runs are, for a process that shares in them: whom they ask, and how one of them is executed.

The port between the engine (`sweep`, `share`, `dispatch`), which knows no suite, and the kinds of runs there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import attrs

from orchestrator.engine.attempt import Attempt
from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Waits
from orchestrator.engine.gate.gate import Gate
from orchestrator.engine.gate.requests import AttemptRequests
from orchestrator.engine.gate.stopwatch import Stopwatch
from orchestrator.engine.nouns import KindNouns
from orchestrator.engine.ports import Ledger
from orchestrator.suite.settings import Settings
from orchestrator.world import World
from providers.base import Provider
from providers.prices.table import Prices
from store.events import Json
from store.rows import Claim, NewSweep


@attrs.frozen(kw_only=True)
class Asked:
    """Somebody whom runs ask."""

    provider: Provider
    prices: Prices
    """By model; one that is not in it has an unknown price."""
    unpriced: bool = False
    """Whether it is asked although a cap in USD cannot count it."""
    tokens: bool = True
    """Whether it reads and writes tokens; a program does not."""


@attrs.frozen(kw_only=True)
class Room:
    """What a process has for the runs that it executes."""

    sweep: str
    settings: Settings
    gates: Mapping[str, Gate]
    """The ways to those in `Job.asked`, by the same names."""
    ledger: Ledger
    control: Control
    waits: Waits
    scratch: Path
    """A directory for their workspaces; it is removed in the end."""
    world: World
    say: Callable[[str], None]

    def open_attempt(self, claim: Claim, max_wall_s: float | None = None) -> Attempt:
        """The record of an attempt at the claimed run, whose work may take *max_wall_s*."""
        return Attempt(
            claim=claim,
            requests=AttemptRequests(
                key=f"{self.sweep}/{claim.position}/{claim.number}",
                position=claim.position,
                log=self.ledger.log(claim),
                watch=Stopwatch(max_wall_s),
            ),
            ledger=self.ledger,
            control=self.control,
            waits=self.waits,
            wall=self.world.wall,
        )


@attrs.frozen(kw_only=True)
class Planning:
    """What the plan of a sweep is told, beside what the job knows."""

    name: str
    command: str
    purpose: str
    planned_at: int
    conditions: Mapping[str, Json]
    settings: Settings


class Job(Protocol):
    """One kind of runs, about one suite or lab."""

    @property
    def nouns(self) -> KindNouns:
        """Its words for messages."""

    @property
    def asked(self) -> Mapping[str, Asked]:
        """Everybody whom runs may ask, by the names that runs ask by. Never empty."""

    @property
    def content(self) -> Mapping[str, str]:
        """Hashes of all files that the runs are about, by path: what a resume compares."""

    @property
    def longest_s(self) -> float:
        """Seconds that a run which works as it should takes at most."""

    def conditions(self, settings: Settings) -> dict[str, Json]:
        """What is stored with the sweep about its suite; holds `suite` with `id`, `version`, `root`, `bundled` and
        `content`.
        """

    def plan(self, planning: Planning) -> NewSweep:
        """Every run of the sweep in its order. Pure."""

    def account(self, claim: Claim) -> str:
        """The account that has to have room before the run starts."""

    def executor(self, room: Room) -> Callable[[Claim], Awaitable[None]]:
        """What executes one claimed run, and hands its ending to the ledger whatever happens."""
