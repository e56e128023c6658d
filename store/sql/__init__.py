"""sql: the store as a SQLite file: one writer per process, append-only tables, readers on snapshots.

Only these modules import sqlite3 or aiosqlite, and only the orchestrator imports them.

Where a new thing goes:

- a query: a file in `queries/`, loaded by its name (Python never composes SQL); a method of `Reader` that runs it; and
  a class in `store/records.py` or `store/tallies.py` for its rows. Then pin its plan:
  `python -m tests.store.sql.test_query_plans`
- a write: a function that returns the transaction, in the module of its table (`plans.py`, `leases.py`, `commands.py`,
  `verifications.py`, ...), for `Writer` to commit
- a migration: `schema/NNNN_subject.sql` with the next number, triggers in `NNNN_guards.sql`, and the new number as the
  schema version in `database.py`

Start reading at `ledger.py`.
"""
