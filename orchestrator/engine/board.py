"""Board of claimed runs that have not started, in one ready queue per account. Pure: it does no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from store.rows import Claim


class Board:
    """Ready queues, one per account, served in turn; within an account the stored order is kept."""

    def __init__(self) -> None:
        self._ready: dict[str, deque[Claim]] = {}
        self._turn: deque[str] = deque()
        self.waiting = 0
        self.running = 0

    def __repr__(self) -> str:
        return f"<Board: {self.waiting} waiting, {self.running} running>"

    def add_claims(self, account: str, claims: Iterable[Claim]) -> None:
        """Queue the claimed runs of an account."""
        if account not in self._ready:
            self._ready[account] = deque()
            self._turn.append(account)
        queue = self._ready[account]
        before = len(queue)
        queue.extend(claims)
        self.waiting += len(queue) - before

    def start_next(self, has_room: Callable[[str], bool]) -> Claim | None:
        """Take the next run whose account has room; None when nothing may start now."""
        for _ in range(len(self._turn)):
            account = self._turn[0]
            self._turn.rotate(-1)
            if self._ready[account] and has_room(account):
                self.waiting -= 1
                self.running += 1
                return self._ready[account].popleft()
        return None

    def list_accounts(self) -> list[str]:
        """List the accounts that have runs in their queue."""
        return [account for account, queue in self._ready.items() if queue]

    def count_ready(self, has_room: Callable[[str], bool]) -> int:
        """Count the queued runs whose account has room."""
        return sum(len(queue) for account, queue in self._ready.items() if queue and has_room(account))

    def mark_ended(self) -> None:
        """Note that a started run has ended."""
        self.running -= 1

    def take_unstarted(self) -> list[Claim]:
        """Take all runs out of the queues."""
        claims = [claim for queue in self._ready.values() for claim in queue]
        for queue in self._ready.values():
            queue.clear()
        self.waiting = 0
        return claims
