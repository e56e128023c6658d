"""store: the append-only record of what happened.

Words (errors, events, rows, records, canonical, encoding, text, secrets, segments, positions, structure, stats) are
leaf modules without SQL that every folder may import. The SQL modules (database, turnstile, writer, ledger, plans,
leases, claims, controls, grants, blobs, reader) are for the orchestrator alone. Knows nothing about providers,
verifiers or how runs are scheduled. Start reading at `ledger.py`.
"""
