"""Store opened for writing: its writer runs in the outermost task group and ends last.

So no measurement is lost, whatever ends the code inside.
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
    """Open the store and start its writer, which outlives everything inside the block.

    A wait of more than *max_stall_s* seconds for another process fails. *say* prints warnings, and the number of rows
    that could not be written.

    Raises:
        StoreRefused, StoreStalled: the store cannot be opened.
        EvalctlError: raised inside the block, also from within task groups.
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
        for noun, count in (writer.lost if writer is not None else {}).items():
            say(f"{count} {noun} could not be written; `evalctl resume` runs them again")


def _first_error(group: BaseExceptionGroup[EvalctlError]) -> EvalctlError:
    error = group.exceptions[0]
    return _first_error(error) if isinstance(error, BaseExceptionGroup) else error
