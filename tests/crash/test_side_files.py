"""What a kill leaves beside the store, cut short anywhere: the next process warns or not, and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from store.sql.database import open_database
from store.sql.turnstile import Turnstile
from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, until

pytestmark = pytest.mark.anyio

CUTS = 24
SIDES = ("-wal", "-shm", ".lock")


@pytest.fixture
def left(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> Path:
    """The folder of a store whose process was killed while it wrote."""
    endpoint.plan({"do": {"hold": 0}})
    flags = tiny(make_suite(numbered(2)), *against(endpoint), "--k", "4", "--concurrency", "4")
    started = evalctl.start(*flags)
    until(lambda: endpoint.counts()["held"] == 4, "4 requests")
    endpoint.release(2)
    until(lambda: evalctl.number("SELECT count(*) FROM outcome") == 2, "2 outcomes")
    started.kill()
    return evalctl.store.parent


async def whole(store: Path) -> bool:
    turnstile = Turnstile(store, report=lambda _text: None)
    async with open_database(store, turnstile) as database:
        rows = await database.run_on_thread(lambda raw: raw.execute("PRAGMA integrity_check").fetchall())
    return bool(rows == [("ok",)])


def cut_short(left: Path, folder: Path) -> list[Path]:
    """Copies of a store, in each of which one side file lacks its end."""
    stores = []
    for side in SIDES:
        size = Path(f"{left / 'runs.db'}{side}").stat().st_size
        for length in sorted({size * cut // CUTS for cut in range(CUTS)}):
            copy = folder / f"cut{side}-{length}"
            shutil.copytree(left, copy)
            with Path(f"{copy / 'runs.db'}{side}").open("r+b") as file:
                file.truncate(length)
            stores.append(copy / "runs.db")
    return stores


async def test_a_side_file_that_was_cut_short_blocks_nobody(left: Path, tmp_path: Path) -> None:
    stores = cut_short(left, tmp_path)
    assert len(stores) > CUTS
    for store in stores:
        assert await whole(store), store
