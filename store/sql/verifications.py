"""Stores a re-verification: the verdicts of a further pass, and a result that supersedes the current one.

Append-only like everything else: the outcome with its cost and the earlier verdicts stay as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from store.documents.encoding import encode_json
from store.documents.text import to_column
from store.sql.statements import load_statement

if TYPE_CHECKING:
    from store.rows import Outcome, Verdict
    from store.secrets.redactor import Redactor


@attrs.frozen(kw_only=True)
class Verification:
    """The verdicts of a re-verification of one attempt, and the outcome that follows from them."""

    run_id: int
    attempt_id: int
    outcome: Outcome
    reason: str | None
    composite: float | None
    verdicts: tuple[Verdict, ...]


def store_verification(verification: Verification, redactor: Redactor) -> Callable[[sqlite3.Connection], bool]:
    """Make the transaction that stores a re-verification; its result is whether it counts.

    It does not count, and nothing is stored, if the run's current result has meanwhile come from another attempt.
    """
    verdicts = [
        (
            to_column(redactor.redact_text(verdict.verifier)),
            to_column(verdict.kind),
            verdict.verdict,
            verdict.score,
            encode_json(redactor.redact_json(verdict.detail)),
        )
        for verdict in verification.verdicts
    ]

    def insert_verification(connection: sqlite3.Connection) -> bool:
        result = {
            "run_id": verification.run_id,
            "attempt_id": verification.attempt_id,
            "outcome": verification.outcome,
            "reason": None if verification.reason is None else to_column(verification.reason),
            "judged": int(verification.outcome in ("pass", "fail")),
            "composite": verification.composite,
        }
        if connection.execute(load_statement("verify_result"), result).rowcount != 1:
            return False
        (number,) = connection.execute(load_statement("verify_pass"), (verification.attempt_id,)).fetchone()
        connection.executemany(
            load_statement("verify_verdict"), [(verification.attempt_id, number, *verdict) for verdict in verdicts]
        )
        return True

    return insert_verification
