"""Stores a re-verification: the verdicts of a further pass, and a result that supersedes the current one.

Append-only like everything else: the outcome with its cost and the earlier verdicts stay as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from store.documents.encoding import encode
from store.documents.text import to_column
from store.sql.statements import statement

if TYPE_CHECKING:
    from store.rows import Judgement, Outcome
    from store.secrets.redactor import Redactor


@attrs.frozen(kw_only=True)
class Verification:
    """The verdicts of a re-verification of one attempt, and the outcome that follows from them."""

    run_id: int
    attempt_id: int
    outcome: Outcome
    reason: str | None
    composite: float | None
    verdicts: tuple[Judgement, ...]


def store_verification(found: Verification, redactor: Redactor) -> Callable[[sqlite3.Connection], bool]:
    """Make the transaction that stores a re-verification; its result is whether it counts.

    It does not count, and nothing is stored, if the run's current result has meanwhile come from another attempt.
    """
    verdicts = [
        (
            to_column(redactor.text(verdict.verifier)),
            to_column(verdict.kind),
            verdict.verdict,
            verdict.score,
            encode(redactor.json(verdict.detail)),
        )
        for verdict in found.verdicts
    ]

    def job(connection: sqlite3.Connection) -> bool:
        result = {
            "run_id": found.run_id,
            "attempt_id": found.attempt_id,
            "outcome": found.outcome,
            "reason": None if found.reason is None else to_column(found.reason),
            "judged": int(found.outcome in ("pass", "fail")),
            "composite": found.composite,
        }
        if connection.execute(statement("verify_result"), result).rowcount != 1:
            return False
        (number,) = connection.execute(statement("verify_pass"), (found.attempt_id,)).fetchone()
        connection.executemany(
            statement("verify_verdict"), [(found.attempt_id, number, *verdict) for verdict in verdicts]
        )
        return True

    return job
