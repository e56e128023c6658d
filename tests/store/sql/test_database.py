# ruff: noqa: ASYNC220, ASYNC221 - the test waits for a process or a file; nothing else has to go on
from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from store.errors import StoreRefused
from store.sql.database import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    detect_filesystem,
    examine_store,
    locate_store,
    open_database,
    split_statements,
)
from store.sql.statements import load_migrations
from store.sql.turnstile import Turnstile
from tests.store.sql.living import ask, durable, ending, take_part, writing

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
NFS = "36 35 98:0 / {} rw,noatime master:1 - nfs4 server:/export rw\n"
OPEN = """
import sys, anyio
from pathlib import Path
from store.sql.database import open_database
from store.sql.turnstile import Turnstile

async def main():
    path = Path(sys.argv[1])
    sys.stdin.readline()
    async with open_database(path, Turnstile(path, report=print)) as database:
        print(await database.run_on_thread(lambda raw: raw.execute("PRAGMA user_version").fetchone()[0]))

anyio.run(main)
"""


def turnstile(path: Path) -> Turnstile:
    return Turnstile(path, report=print)


async def test_schema_constant_is_the_newest_migration() -> None:
    assert max(load_migrations()) == SCHEMA_VERSION


async def test_store_is_located_by_flag_then_variable_then_project_then_state(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "deep" / "er"
    inner.mkdir(parents=True)
    home = {"HOME": str(tmp_path / "home")}
    assert locate_store(None, home, inner) == tmp_path / "home/.local/state/evalctl/runs.db"
    assert locate_store(None, {**home, "XDG_STATE_HOME": "/xdg"}, inner) == Path("/xdg/evalctl/runs.db")
    assert locate_store(None, {"EVALCTL_STATE_HOME": "/own", "XDG_STATE_HOME": "/xdg"}, inner) == Path("/own/runs.db")
    project = tmp_path / "project" / ".evalctl" / "out"
    project.mkdir(parents=True)
    (project / "runs.db").touch()
    assert locate_store(None, {"EVALCTL_STATE_HOME": "/own"}, inner) == project / "runs.db"
    assert locate_store(None, {"EVALCTL_STORE": "here.db"}, inner) == inner / "here.db"
    assert locate_store("/flag.db", {"EVALCTL_STORE": "here.db"}, inner) == Path("/flag.db")


async def test_absent_store_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "runs.db"
    assert examine_store(path) == "absent"
    async with open_database(path, turnstile(path)) as database:
        assert not database.warning
        assert examine_store(path) == "current"
        for made in (path, Path(f"{path}.lock"), Path(f"{path}-wal")):
            assert stat.S_IMODE(made.stat().st_mode) == 0o600, made
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert not Path(f"{path}-wal").exists()
    assert ask(path, "PRAGMA application_id") == [(APPLICATION_ID,)]


async def test_writer_connection_is_durable_and_guarded(store: Path) -> None:
    async with open_database(store, turnstile(store)) as database:

        def pragma(name: str) -> Awaitable[Any]:
            return database.run_on_thread(lambda raw: raw.execute(f"PRAGMA {name}").fetchone()[0])

        assert await pragma("journal_mode") == "wal"
        assert await pragma("synchronous") == 2
        assert await pragma("wal_autocheckpoint") == 0
        assert await pragma("foreign_keys") == 1
        assert await pragma("recursive_triggers") == 1
        assert await pragma("busy_timeout") > 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"once upon a time", "is not a database"),
        (b"x", "is not a database"),
        (os.urandom(5000), "is not a database"),
    ],
)
async def test_garbage_is_refused_and_left_alone(store: Path, content: bytes, says: str) -> None:
    store.write_bytes(content)
    with pytest.raises(StoreRefused, match=says):
        examine_store(store)
    with pytest.raises(StoreRefused, match=says):
        async with open_database(store, turnstile(store)):
            pass
    assert store.read_bytes() == content


async def test_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="is a directory"):
        examine_store(tmp_path)


async def test_odd_characters_in_the_path_do_no_harm(tmp_path: Path) -> None:
    store = tmp_path / "a?b#c%20 d" / "runs.db"
    async with open_database(store, turnstile(store)):
        pass
    assert examine_store(store) == "current"


async def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "runs.db"
    with pytest.raises(StoreRefused):
        async with open_database(path, turnstile(path)):
            pass


async def test_newer_store_is_refused(store: Path) -> None:
    async with open_database(store, turnstile(store)):
        pass
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreRefused, match="schema 99, written by a newer evalctl"):
        examine_store(store)
    with pytest.raises(StoreRefused, match="newer"):
        async with open_database(store, turnstile(store)):
            pass


async def test_history_of_another_tool_is_refused_with_the_way_in(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")
    with pytest.raises(StoreRefused, match="evalctl import"):
        examine_store(store)


async def test_any_other_database_is_refused_unchanged(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE cookies (id INTEGER)")
    before = store.read_bytes()
    with pytest.raises(StoreRefused, match="another program's"):
        async with open_database(store, turnstile(store)):
            pass
    assert store.read_bytes() == before


async def test_empty_file_becomes_a_store(store: Path) -> None:
    store.touch()
    assert examine_store(store) == "absent"
    async with open_database(store, turnstile(store)):
        assert examine_store(store) == "current"


@pytest.fixture
def passable(tmp_path: Path) -> Iterator[Path]:
    """The test's folder, which other users may pass through."""
    closed = [folder for folder in (tmp_path, *tmp_path.parents) if stat.S_IMODE(folder.stat().st_mode) == 0o700]
    for folder in closed:
        folder.chmod(0o711)
    yield tmp_path
    for folder in closed:
        folder.chmod(0o700)


async def test_store_that_cannot_be_written_is_refused(passable: Path) -> None:
    # Root may write anything, so the process that tries becomes somebody else.
    store = passable / "runs.db"
    async with open_database(store, turnstile(store)):
        pass
    store.chmod(0o444)
    script = """
import os, sys, anyio, aiosqlite
from pathlib import Path
from store.sql.database import examine_store, open_database
from store.errors import StoreRefused
from store.sql.turnstile import Turnstile
import anyio._backends._asyncio  # everything is read before the rights go
from store.sql.statements import load_migrations
steps = load_migrations()
if os.geteuid() == 0:
    os.setuid(65534)
async def main():
    path = Path(sys.argv[1])
    print(examine_store(path))
    try:
        async with open_database(path, Turnstile(path, report=print), steps=steps):
            print("opened")
    except StoreRefused as refusal:
        print(refusal)
anyio.run(main)
"""
    command = [sys.executable, "-c", script, str(store)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    assert done.stdout.startswith("current\n")
    assert "cannot be written: permission denied" in done.stdout


async def test_migration_goes_forward_and_keeps_a_copy(store: Path) -> None:
    steps = load_migrations()
    async with open_database(store, turnstile(store), steps={1: steps[1]}):
        pass
    later = {**steps, 2: ["CREATE TABLE extra (id INTEGER) STRICT; -- one; two\nINSERT INTO extra VALUES (7);"]}
    async with open_database(store, turnstile(store), steps=later):
        pass
    assert ask(store, "SELECT id FROM extra") == [(7,)]
    assert ask(store, "PRAGMA user_version") == [(2,)]
    copy = Path(f"{store}.schema-1")
    assert ask(copy, "PRAGMA user_version") == [(1,)]
    assert ask(copy, "PRAGMA integrity_check") == [("ok",)]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


async def test_migration_that_fails_leaves_the_old_schema(store: Path) -> None:
    async with open_database(store, turnstile(store)):
        pass
    broken = {**load_migrations(), 2: ["CREATE TABLE extra (id INTEGER) STRICT;", "INSERT INTO nowhere VALUES (1);"]}
    with pytest.raises(StoreRefused, match="nowhere"):
        async with open_database(store, turnstile(store), steps=broken):
            pass
    assert ask(store, "PRAGMA user_version") == [(1,)]
    assert ask(store, "SELECT count(*) FROM sqlite_schema WHERE name = 'extra'") == [(0,)]


async def test_statements_are_split_where_triggers_and_comments_end() -> None:
    text = """
    -- a comment; with a semicolon
    CREATE TABLE t (a TEXT DEFAULT ';');
    CREATE TRIGGER g BEFORE DELETE ON t BEGIN SELECT 1; SELECT 2; END;
    """
    assert len(split_statements(text)) == 2
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in split_statements(text):
            connection.execute(statement)


async def test_eight_processes_open_an_absent_store_at_once(store: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(store)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    outputs = [process.communicate("go\n", timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert outputs == [f"{SCHEMA_VERSION}\n"] * 8
    assert ask(store, "PRAGMA integrity_check") == [("ok",)]


async def test_eight_processes_meet_a_pending_migration_and_one_makes_it(store: Path) -> None:
    with closing(sqlite3.connect(store)) as older:
        older.execute(f"PRAGMA application_id = {APPLICATION_ID}")  # of schema 0: nothing is in it yet
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(store)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    outputs = [process.communicate("go\n", timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert outputs == [f"{SCHEMA_VERSION}\n"] * 8
    assert ask(store, "PRAGMA integrity_check") == [("ok",)]
    assert [file.name for file in store.parent.glob("*.schema-*")] == [f"{store.name}.schema-0"]


async def test_network_file_system_gets_a_plain_journal_and_one_process(store: Path, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("22 1 0:1 / / rw - ext4 /dev/vda rw\n" + NFS.format(tmp_path))
    async with open_database(store, turnstile(store), mounts=mounts) as database:
        assert "network file system (nfs4)" in database.warning
        assert await database.run_on_thread(lambda raw: raw.execute("PRAGMA journal_mode").fetchone()[0]) == "delete"
        with pytest.raises(StoreRefused, match=rf"process {os.getpid()} is using it.*nfs4"):
            async with open_database(store, turnstile(store), mounts=mounts):
                pass
        assert examine_store(store) == "current"
    async with open_database(store, turnstile(store), mounts=mounts):
        pass


async def test_network_store_is_written_and_read_like_any_other(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(NFS.format(tmp_path))
    async with open_database(store, turnstile(store), mounts=mounts):
        pass
    async with writing(store) as writer:  # a local process turns it into a WAL store again
        part = await take_part(writer)
        for claim in await part.claims.claim_runs(10):
            part.ledger.finish_attempt(ending(claim))
        await durable(writer)
    assert ask(store, "SELECT count(*) FROM current") == [(4,)]


async def test_file_system_is_told_by_the_longest_mount_point(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:1 / / rw - ext4 /dev/vda rw\n"
        r"23 22 0:2 / /mnt/my\040share rw shared:3 - cifs //server/share rw" + "\n"
        "24 22 0:3 / /mnt/my rw - tmpfs none rw\n"
        "broken line\n"
    )
    assert detect_filesystem(Path("/mnt/my share/x/runs.db"), mounts) == "cifs"
    assert detect_filesystem(Path("/mnt/my/runs.db"), mounts) == "tmpfs"
    assert detect_filesystem(Path("/mnt/mystery/runs.db"), mounts) == "ext4"
    assert detect_filesystem(Path("/x"), tmp_path / "absent") == ""
