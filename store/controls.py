"""What people tell a sweep to do, written down: who, why and when. `Reader.control` reads it back."""

from __future__ import annotations

import sqlite3  # noqa: TID251 - a SQL module of the store
from collections.abc import Callable, Mapping
from typing import Literal

from store.encoding import encode
from store.events import Json
from store.statements import statement
from store.text import to_column

Verb = Literal["pause", "continue", "cancel", "raise_cap", "acknowledge"]


def tell(
    sweep_id: int, verb: Verb, *, who: str, why: str, payload: Mapping[str, Json], at: int
) -> Callable[[sqlite3.Connection], None]:
    """The job that records *verb*; *at* is microseconds UTC."""

    def job(connection: sqlite3.Connection) -> None:
        row = (sweep_id, verb, to_column(who), to_column(why), encode(dict(payload)), at)
        connection.execute(statement("insert_control"), row)

    return job
