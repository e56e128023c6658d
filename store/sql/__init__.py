"""sql: the SQLite file. The only modules that may import sqlite3 or aiosqlite; only the orchestrator may import them.

Every statement is a file in `queries/`, every migration one in `schema/`. Start reading at `ledger.py`.
"""
