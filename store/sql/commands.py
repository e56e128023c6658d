"""Commands to a sweep (pause, continue, cancel, ...), stored with author, reason and time. `Reader` lists them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Literal

from store.documents.encoding import encode_json
from store.documents.text import from_column, to_column
from store.events import Json
from store.records import CommandRow
from store.sql.statements import load_statement

CommandVerb = Literal["pause", "continue", "cancel", "raise_cap", "acknowledge"]


def record_command(
    sweep_id: int, verb: CommandVerb, *, who: str, why: str, payload: Mapping[str, Json], at: int
) -> Callable[[sqlite3.Connection], None]:
    """Make the transaction that records the command *verb*; *at* is microseconds UTC."""

    def insert_command(connection: sqlite3.Connection) -> None:
        row = (sweep_id, verb, to_column(who), to_column(why), encode_json(dict(payload)), at)
        connection.execute(load_statement("insert_control"), row)

    return insert_command


def find_command_in_force(sweep_id: int) -> Callable[[sqlite3.Connection], CommandRow | None]:
    """Make the read-only query for the command in force: the last pause, continue or cancel."""

    def select_command(connection: sqlite3.Connection) -> CommandRow | None:
        row = connection.execute(load_statement("control_in_force"), (sweep_id,)).fetchone()
        if row is None:
            return None
        number, verb, who, why, payload, at = row
        return CommandRow(
            id=number, verb=verb, who=from_column(who), why=from_column(why), payload=json.loads(payload), at=at
        )

    return select_command
