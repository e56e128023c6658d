"""store: the append-only record of sweeps, and the value types that every package shares.

The bottom layer: it knows nothing of providers, verifiers or scheduling. The modules here and in `documents/`,
`secrets/` and `stats/` contain no SQL and may be imported from anywhere; `sql/` is for the orchestrator alone.

Where a new thing goes:

- a value that a sweep writes: `rows.py`; one that is only read back: `records.py`, or `tallies.py` for sums over a cell
- a measured figure of an attempt: a field of `measurements.py` and a column of `outcome`
- an event of an attempt: a class in `events.py`
- a part of a cell's identity: `identity.py`, with a new fingerprint version
- an error that a user sees: `errors.py`
- a query, a table, a migration or a write: `sql/` (its docstring says which file)
- reading or writing a JSON or YAML document: `documents/`; finding or removing secrets: `secrets/`
- a statistic, as a pure function of numbers: `stats/`

Start reading at `sql/ledger.py`.
"""
