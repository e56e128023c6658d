"""Spending that was never recorded: what dead processes used where they had no cap to keep to.

A process records what it spends beyond its caps now and then; one that was killed has not done so. When a sweep gets
another cap, that has to count.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from store.rows import Amount, WorkerRow
from store.sql.leases import drop_dead
from store.sql.statements import statement


def reclaim(
    sweep_id: int, *, is_alive: Callable[[WorkerRow], bool | None], at: int
) -> Callable[[sqlite3.Connection], Amount]:
    """The job that charges a sweep's caps with it, by the events of every request; its result is how much it was.

    A sweep that has charged nothing yet needs none of it: its first cap counts all that was spent. *at* is microseconds
    UTC.
    """

    def job(connection: sqlite3.Connection) -> Amount:
        charged = Amount()
        last = connection.execute(statement("grant_balance"), (sweep_id,)).fetchone()
        if last is None:
            return charged
        seq, total = last[0], Amount(calls=last[1], tokens=last[2], nusd=last[3])
        drop_dead(connection, 0, is_alive)  # 0 is nobody: this process is no worker yet
        living = {row[0] for row in connection.execute(statement("lease_holders"), (0,))}
        for account in connection.execute(statement("read_accounts"), {"sweep": sweep_id}).fetchall():
            worker, grants, *amounts = account[:8]
            missing = Amount(
                **{
                    name: max(0, amounts[place + 3] - amounts[place])
                    for place, name in enumerate(("calls", "tokens", "nusd"))
                }
            )
            # One without a row of its own had no cap at all: it came before the first one, which has counted it.
            if worker in living or not grants or missing == Amount():
                continue
            seq, total, charged = seq + 1, total + missing, charged + missing
            connection.execute(
                statement("insert_spend"),
                (
                    *(sweep_id, seq, worker, "reclaim"),
                    *(missing.calls, missing.tokens, missing.nusd),
                    *(total.calls, total.tokens, total.nusd),
                    at,
                ),
            )
        return charged

    return job
