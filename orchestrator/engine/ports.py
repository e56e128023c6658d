"""Ports between executing runs and the record: claims, ledger, attempt log, allotments of the caps.

The SQLite store implements them (`store.sql`); nothing here imports SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from store.events import Event, Json
from store.rows import Amount, Claim, Ending


class Claims(Protocol):
    """Hands out runs under a lease, each to one process at a time."""

    async def claim_runs(self, limit: int) -> Sequence[Claim]:
        """Claim about *limit* runs, in whole pair groups and in the stored order; empty if none is free now.

        Returns once the claims are committed.
        """

    def has_lapsed(self) -> bool:
        """Return whether the lease may have expired. Then call `confirm_claims` before a claimed run starts."""

    async def confirm_claims(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Return those of *claims* that still belong to this process."""

    async def count_remaining(self) -> int:
        """Count the runs of the sweep that have no final result yet, those of other processes included."""


class AttemptLog(Protocol):
    """The record of one attempt while it runs. None of its methods waits."""

    def append_event(self, event: Event) -> None:
        """Append an event.

        Raises:
            StoreFailed: the writer has failed; stop producing.
        """

    def append_delta(self, stream: Literal["text", "reasoning"], request: int, text: str) -> None:
        """Append a piece of an answer. Pieces are stored as segments that keep each one's time and length."""


class Ledger(Protocol):
    """The record of a sweep."""

    def open_log(self, claim: Claim) -> AttemptLog:
        """Open the record of one attempt."""

    def finish_attempt(self, ending: Ending) -> None:
        """Hand over the ending of an attempt; the ledger acknowledges it once it is durable."""

    def record_notice(self, kind: str, payload: dict[str, Json]) -> None:
        """Record a notice: an event of the sweep, not of an attempt."""

    async def wait_for_backlog(self) -> None:
        """Wait until the backlog of writes is small, which keeps memory flat. Usually returns at once."""


class Allotments(Protocol):
    """The part of the sweep's caps that this process may spend."""

    async def reserve(self, bound: Amount) -> None:
        """Reserve the upper bound of one request; wait for others to settle if necessary.

        Raises:
            CapExhausted (`store.errors`): waiting cannot help.
        """

    def settle(self, bound: Amount, spent: Amount) -> None:
        """Replace the reservation *bound* by the amount that was spent."""
