"""The orchestrator's ports in their plainest form: lists in memory, for tests of the parts above them."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from store.errors import CapExhausted
from store.events import Event
from store.rows import Amount, Claim, Ending


def claim(position: int = 1, *, number: int = 1, pair: int | None = None) -> Claim:
    return Claim(
        attempt_id=position,
        run_id=position,
        sweep_id=1,
        cell_id=1,
        case_id="case",
        variant="",
        position=position,
        repetition=0,
        pair=position if pair is None else pair,
        number=number,
        supersedes=None,
    )


@attrs.define
class PlainLog:
    events: list[Event] = attrs.field(factory=list)
    deltas: list[str] = attrs.field(factory=list)

    def append_event(self, event: Event) -> None:
        self.events.append(event)

    def append_delta(self, stream: str, request: int, text: str) -> None:
        self.deltas.append(text)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


@attrs.define
class PlainLedger:
    logs: dict[int, PlainLog] = attrs.field(factory=dict)
    endings: list[Ending] = attrs.field(factory=list)

    def open_log(self, claim: Claim) -> PlainLog:
        return self.logs.setdefault(claim.position, PlainLog())

    def finish_attempt(self, ending: Ending) -> None:
        self.endings.append(ending)

    def record_notice(self, kind: str, payload: Mapping[str, Any]) -> None: ...

    async def wait_for_backlog(self) -> None: ...


@attrs.define
class PlainBudget:
    calls: int | None = None
    reserved: list[Amount] = attrs.field(factory=list)
    spent: list[Amount] = attrs.field(factory=list)

    async def reserve(self, bound: Amount) -> None:
        if self.calls is not None and len(self.reserved) >= self.calls:
            raise CapExhausted(cap="max-calls")
        self.reserved.append(bound)

    def settle(self, bound: Amount, spent: Amount) -> None:
        self.spent.append(spent)


@attrs.define
class PlainClaims:
    waiting: list[Claim]
    held_by_others: int = 0
    lost: set[int] | None = None
    """Positions that went to others while this process was away; None: it was not."""
    asked: list[int] = attrs.field(factory=list)

    async def claim_runs(self, limit: int) -> Sequence[Claim]:
        self.asked.append(limit)
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return taken

    def has_lapsed(self) -> bool:
        return self.lost is not None

    async def confirm_claims(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        lost, self.lost = self.lost or set(), None
        return [claim for claim in claims if claim.position not in lost]

    async def count_remaining(self) -> int:
        return len(self.waiting) + self.held_by_others
