"""The ports that executing a run needs from whatever keeps the record: claims, ledger, budget.

The SQLite store implements them today; another engine can stand behind them. Nothing here imports SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from store.events import Event, Json
from store.rows import Amount, Claim, Ending


class Claims(Protocol):
    """Hands out runs, each to one process at a time."""

    async def claim_runs(self, limit: int) -> Sequence[Claim]:
        """Take up to about *limit* runs, whole pair groups, in the stored order; empty when none is free now.

        Returns once the claims are committed.
        """

    def has_lapsed(self) -> bool:
        """Whether what was claimed and not started may have gone to others since: ask `confirm_claims` first."""

    async def confirm_claims(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Those of *claims* that are still this process's."""

    async def count_remaining(self) -> int:
        """Runs of the sweep that have no final result yet, whoever holds them."""


class AttemptLog(Protocol):
    """The record of one attempt while it runs. Nothing here waits."""

    def append_event(self, event: Event) -> None:
        """Append an event.

        Raises:
            StoreFailed: the writer has failed; stop producing.
        """

    def append_delta(self, stream: Literal["text", "reasoning"], request: int, text: str) -> None:
        """Append a piece of an answer; pieces become segments that keep every piece's time and length."""


class Ledger(Protocol):
    """The record of a sweep."""

    def open_log(self, claim: Claim) -> AttemptLog:
        """Open the record of one attempt."""

    def finish_attempt(self, ending: Ending) -> None:
        """Hand over how an attempt ended; the ledger acknowledges it when it is durable."""

    def record_notice(self, kind: str, payload: dict[str, Json]) -> None:
        """Record something that belongs to the sweep, not to an attempt."""

    async def wait_for_backlog(self) -> None:
        """Wait until the backlog is small again: what keeps memory flat. Usually returns at once."""


class Allotments(Protocol):
    """What the sweep may still spend, as seen by this process."""

    async def reserve(self, bound: Amount) -> None:
        """Set the upper bound of one request aside, waiting for others to settle if need be.

        Raises:
            CapExhausted (`store.errors`): waiting cannot help.
        """

    def settle(self, bound: Amount, spent: Amount) -> None:
        """Replace a reservation by what was really spent."""
