"""How SQLite goes about the named statements, in a form that can be compared."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

from store.sql.statements import SQL_FOLDER, load_statement

PINNED = Path(__file__).parent / "data" / "plans.json"
NAMES = sorted(file.stem for file in (SQL_FOLDER / "queries").glob("*.sql"))


def bare(name: str) -> str:
    """A statement without its comments."""
    return re.sub(r"--.*", "", load_statement(name)).strip()


def reads(name: str) -> bool:
    return bare(name).startswith(("SELECT", "WITH"))


def accesses(lines: list[str]) -> set[tuple[str, str, str | None]]:
    """Which tables a plan reads, and by which index: what stays the same over versions of SQLite."""
    return {
        (match[1], match[2], match[3])
        for line in lines
        if (
            match := re.match(
                r" *(SEARCH|SCAN) (\w+)(?: .*USING (?:COVERING )?(INDEX \w+|\w+ PRIMARY KEY|PRIMARY KEY))?", line
            )
        )
    }


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    """The plan of a named statement, one step a line, indented as it is nested."""
    sql = bare(name)
    parameters: Any = defaultdict[str, None](lambda: None) if ":" in sql else (None,) * sql.count("?")
    depth = {0: -1}
    lines = []
    for number, parent, _, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters):
        depth[number] = depth[parent] + 1
        lines.append("  " * depth[number] + detail)
    return lines
