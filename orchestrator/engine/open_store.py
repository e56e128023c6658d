"""The store, open for writing: its writer is in the outermost task group and ends last.

So nothing measured is lost however the inside ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from store.errors import EvalctlError
from store.sql.database import open_database
from store.sql.turnstile import Turnstile
from store.sql.writer import Writer


@asynccontextmanager
async def open_for_writing(store: Path, *, say: Callable[[str], None], max_stall_s: float) -> AsyncIterator[Writer]:
    """The open store with its writer, which outlives everything inside.

    Whoever waits longer than *max_stall_s* for another process gives up. What could not be written is counted and said.

    Raises:
        StoreRefused, StoreStalled: it cannot be opened.
        EvalctlError: whatever the inside raised, also from within task groups.
    """
    turnstile = Turnstile(store, report=say, max_stall_s=max_stall_s)
    writer: Writer | None = None
    try:
        async with open_database(store, turnstile) as database:
            if database.warning:
                say(database.warning)
            writer = Writer(database)
            async with anyio.create_task_group() as outermost:
                outermost.start_soon(writer.run)
                try:
                    yield writer
                finally:
                    writer.close()
    except BaseExceptionGroup as group:
        ours, foreign = group.split(EvalctlError)
        if ours is None or foreign is not None:
            raise
        raise _first_error(ours) from None
    finally:
        for what, count in (writer.lost if writer is not None else {}).items():
            say(f"{count} {what} could not be written; `evalctl resume` runs them again")


def _first_error(group: BaseExceptionGroup[EvalctlError]) -> EvalctlError:
    error = group.exceptions[0]
    return _first_error(error) if isinstance(error, BaseExceptionGroup) else error
