"""Named SQL: every statement is a file in `queries/`, every migration one in `schema/`. Python never composes SQL."""

from __future__ import annotations

from functools import cache
from pathlib import Path

SQL_FOLDER = Path(__file__).parent


@cache
def load_statement(name: str) -> str:
    """Return the text of `queries/NAME.sql`."""
    return (SQL_FOLDER / "queries" / f"{name}.sql").read_text(encoding="utf-8").strip().removesuffix(";")


def load_all_statements() -> None:
    """Read every statement now: later the process may have no file descriptor left to open one."""
    for file in (SQL_FOLDER / "queries").glob("*.sql"):
        load_statement(file.stem)


def load_migrations() -> dict[int, list[str]]:
    """Map each schema version to the texts of its files, in order. Files are named `NNNN_subject.sql`."""
    steps: dict[int, list[str]] = {}
    for file in sorted((SQL_FOLDER / "schema").glob("[0-9][0-9][0-9][0-9]_*.sql"), key=_order_migration):
        steps.setdefault(int(file.name[:4]), []).append(file.read_text(encoding="utf-8"))
    return steps


def _order_migration(file: Path) -> tuple[str, bool]:
    return file.name[:4], file.name.endswith("_guards.sql")  # guards come after the tables they guard
