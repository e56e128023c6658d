"""store: the append-only record of what happened.

Words (errors, events, canonical, money, secrets, rows, segments) are leaf modules without SQL that every folder may
import. The SQL modules (database, turnstile, ledger, claims, grants, blobs, reader) are for the orchestrator
alone. Knows nothing about providers, verifiers or how runs are scheduled. Start reading at `ledger.py`.
"""
