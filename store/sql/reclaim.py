"""Charges the unrecorded spending of dead processes to a sweep's caps.

A process records its spending in dimensions without a cap only now and then, and a killed one loses the rest. That
spending has to count when the sweep gets a cap in such a dimension later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from store.rows import Amount, WorkerRow
from store.sql.leases import end_dead_leases
from store.sql.statements import load_statement


def charge_unrecorded_spending(
    sweep_id: int, *, is_alive: Callable[[WorkerRow], bool | None], at: int
) -> Callable[[sqlite3.Connection], Amount]:
    """Make the transaction that charges it, computed from the events of every request; its result is the amount.

    Does nothing for a sweep without any charge yet: its first cap counts all earlier spending. *at* is microseconds
    UTC.
    """

    def charge_dead_workers(connection: sqlite3.Connection) -> Amount:
        charged = Amount()
        last = connection.execute(load_statement("grant_balance"), (sweep_id,)).fetchone()
        if last is None:
            return charged
        seq, total = last[0], Amount(calls=last[1], tokens=last[2], nusd=last[3])
        end_dead_leases(connection, 0, is_alive)  # 0 is no worker's id: this process is not registered yet
        living = {row[0] for row in connection.execute(load_statement("lease_holders"), (0,))}
        for account in connection.execute(load_statement("read_accounts"), {"sweep": sweep_id}).fetchall():
            worker, grants, *amounts = account[:8]
            missing = Amount(
                **{
                    name: max(0, amounts[place + 3] - amounts[place])
                    for place, name in enumerate(("calls", "tokens", "nusd"))
                }
            )
            # A process without a row ran before the first cap, which has counted its spending.
            if worker in living or not grants or missing == Amount():
                continue
            seq, total, charged = seq + 1, total + missing, charged + missing
            connection.execute(
                load_statement("insert_spend"),
                (
                    *(sweep_id, seq, worker, "reclaim"),
                    *(missing.calls, missing.tokens, missing.nusd),
                    *(total.calls, total.tokens, total.nusd),
                    at,
                ),
            )
        return charged

    return charge_dead_workers
