"""store: the append-only record of what happened.

Words (errors, events, rows, records, tallies, segments, canonical, encoding, text, positions, yaml_document,
structure, money, secrets, scanner, stats) are modules without SQL that every folder may import. The SQL modules
(database, turnstile, statements, writer, ledger, plans, verifications, controls, blobs, leases, claims, grants,
reclaim, reader) are for the orchestrator alone. Knows nothing about providers, verifiers or how runs are scheduled.
Start reading at `ledger.py`.
"""
