"""The store's SQLite file: locating it, examining it, and opening it for writing, with migrations.

Opening happens under the turnstile and leaves a file of the current schema with a write-ahead log and
`synchronous=FULL`: a commit survives the process. On a network file system, where the log's shared memory does not
work, the store uses a rollback journal and the process keeps the turnstile until it closes.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import quote

from store.errors import StoreRefused, StoreStalled
from store.sql.side_files import SideFiles
from store.sql.statements import load_all_statements, load_migrations

if TYPE_CHECKING:
    import aiosqlite

    from store.sql.turnstile import Turnstile

T = TypeVar("T")

SCHEMA_VERSION = 1
"""The schema version that this evalctl writes (`PRAGMA user_version`)."""
APPLICATION_ID = 0x65766374
"""`PRAGMA application_id`: "evct"."""
BUSY_TIMEOUT_MS = 30_000
"""Milliseconds that SQLite waits for a lock of a foreign program; evalctl's processes wait at the turnstile."""
EXAMINE_TIMEOUT_S = 15.0
"""Seconds that `examine_store` waits for a file that another process is just creating."""
NETWORK_FILESYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "orangefs"),
        *("pvfs2", "ncpfs", "coda", "ocfs2", "gfs2", "glusterfs", "davfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph"),
        *("fuse.s3fs", "fuse.rclone", "fuse.davfs", "fuse.gcsfuse", "fuse.goofys", "fuse.juicefs"),
    }
)
MOUNT_TABLE = Path("/proc/self/mountinfo")

MIN_DATABASE_BYTES = 512
"""Smallest database in bytes (one page). SQLite would take a shorter file for an empty one and overwrite it."""

StoreState = Literal["absent", "current", "older"]


def locate_store(flag: str | None, environment: Mapping[str, str], cwd: Path) -> Path:
    """Locate the store: `--store`, `EVALCTL_STORE`, the nearest `.evalctl/out/runs.db` upwards, the state folder."""
    for given in (flag, environment.get("EVALCTL_STORE")):
        if given:
            return (cwd / Path(given).expanduser()).absolute()
    for folder in (cwd, *cwd.parents):
        project = folder / ".evalctl" / "out" / "runs.db"
        if project.exists():
            return project.absolute()
    if own := environment.get("EVALCTL_STATE_HOME"):
        return (cwd / own / "runs.db").absolute()
    home = environment.get("XDG_STATE_HOME") or str(Path(environment.get("HOME") or Path.home()) / ".local" / "state")
    return (cwd / home / "evalctl" / "runs.db").absolute()


def examine_store(path: Path) -> StoreState:
    """Examine *path*: absent (or empty), a store of the current schema, or one of an older schema.

    Only SQLite opens the file: closing a descriptor of our own would drop the locks that other connections of this
    process hold on it.

    Raises:
        StoreRefused: *path* is a newer store, another program's database, not a database, or unreadable.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        raise StoreRefused(str(path), f"cannot be read: {error.strerror}") from error
    if path.is_dir():
        raise StoreRefused(str(path), "is a directory", "Name a file: --store DIR/runs.db")
    if not path.is_file():
        raise StoreRefused(str(path), "is not a regular file")
    if status.st_size == 0:
        return "absent"
    if status.st_size < MIN_DATABASE_BYTES:
        raise StoreRefused(str(path), "is not a database", "Use another file: --store FILE")
    try:
        connection = sqlite3.connect(build_read_only_uri(path), uri=True, timeout=EXAMINE_TIMEOUT_S)
        try:
            return _classify_database(path, connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _explain_refusal(path, error) from error


class Database:
    """An open store with a writing connection on a thread of its own.

    `warning` is a sentence about the file system for the user; empty if there is nothing to warn about.
    """

    def __init__(self, path: Path, turnstile: Turnstile, connection: aiosqlite.Connection, warning: str) -> None:
        self.path = path
        self.turnstile = turnstile
        self.warning = warning
        self.wal = not warning
        self._connection = connection
        self._files = SideFiles(path, turnstile.lock, wal=self.wal)

    @property
    def log(self) -> Path:
        """The write-ahead log."""
        return self._files.log

    def identify_files(self) -> None:
        """Identify the files on disk, once the connection has opened them all. Call it under the turnstile."""
        self._files = SideFiles(self.path, self.turnstile.lock, wal=self.wal)

    def check_in_place(self) -> None:
        """Check that the store's files are still those that were opened, so that commits will be found again.

        Raises:
            StoreRefused: a file has been removed or replaced.
        """
        self._files.check_in_place()

    async def close_connection(self) -> None:
        """Close the connection. If a file was replaced, abandon it, so that closing writes nothing into the database.

        An abandoned connection stays open until the process ends. Repeated calls do nothing.
        """
        connection = self._connection
        raw = connection._connection  # noqa: SLF001 - see `run_on_thread`
        if raw is None:
            return
        try:
            self.check_in_place()
        except StoreRefused:
            _abandon_connection(raw)
            connection._connection = None  # noqa: SLF001 - its thread would close it
            if (ended := connection.stop()) is not None:
                await ended
            return
        await connection.close()

    async def run_on_thread(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run *job* on the connection's thread, in one hop however many statements it executes.

        Cancelling the wait does not stop it.
        """
        # aiosqlite has no public way to run a function on its thread, and a hop per statement costs 13 to 18 times as
        # much. These two private names are used here and nowhere else.
        connection = self._connection
        result: T = await connection._execute(job, connection._conn)  # type: ignore[no-untyped-call]  # noqa: SLF001 - see above
        return result


@asynccontextmanager
async def open_database(
    path: Path,
    turnstile: Turnstile,
    *,
    mounts: Path = MOUNT_TABLE,
    steps: Mapping[int, Sequence[str]] | None = None,
) -> AsyncIterator[Database]:
    """Open the store at *path* for writing; create or migrate it first if necessary.

    Args:
        path: the store's file; missing folders are created, accessible to their owner only.
        turnstile: held while opening, migrating and closing; closed at the end.
        mounts: the kernel's mount table.
        steps: schema version -> SQL texts; the shipped migrations by default.

    Raises:
        StoreRefused: as for `examine_store`; also if the file cannot be written, or is open in another process on a
        network
            file system.
        StoreStalled: another process did not release the turnstile.
    """
    import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

    steps = load_migrations() if steps is None else steps
    load_all_statements()
    _prepare_folder(path)
    kind = detect_filesystem(path, mounts)
    warning = ""
    try:
        if kind in NETWORK_FILESYSTEMS:
            warning = f"{path} is on a network file system ({kind}): slower journal, and one process at a time"
            if not turnstile.try_enter():
                raise StoreRefused(
                    str(path),
                    f"{turnstile.describe_holder()} is using it, "
                    f"and on a network file system ({kind}) only one process may",
                    "Wait for it, or use a store on a local disk: --store FILE",
                )
            turnstile.keep_until_close()
        async with turnstile.hold():
            connection = await _open_connection(path)
            database = Database(path, turnstile, connection, warning)
            try:
                await database.run_on_thread(lambda raw: _set_up_connection(path, raw, wal=database.wal, steps=steps))
                database.identify_files()
            except BaseException as error:
                # Also when cancelled: the turnstile is held until the thread has finished.
                with anyio.CancelScope(shield=True):
                    await connection.close()
                if isinstance(error, sqlite3.Error):
                    raise _explain_refusal(path, error) from error
                raise
        try:
            yield database
        finally:
            # The last connection to close checkpoints and removes the WAL, so closing needs the turnstile too. If
            # another process does not release it, it has the file open: ours is not the last, and closing is safe.
            with anyio.CancelScope(shield=True):
                with suppress(StoreStalled):
                    async with turnstile.hold():
                        await database.close_connection()
                await database.close_connection()
    finally:
        turnstile.close()


def detect_filesystem(path: Path, mounts: Path = MOUNT_TABLE) -> str:
    """Detect the type of the file system that holds *path*, from the kernel's mount table; empty if unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place = os.path.realpath(path)
    best, kind = -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # a later mount on the same point hides the earlier one
            best, kind = len(point), right.split(" ")[0]
    return kind


def build_read_only_uri(path: Path) -> str:
    """Build the URI that opens the store read-only.

    If the folder is not writable and there is no WAL, SQLite cannot set up the WAL's shared memory and does not need
    it: there can be no writer.
    """
    real = Path(os.path.realpath(path))
    unchanging = not os.access(real.parent, os.W_OK) and not Path(f"{real}-wal").exists()
    return f"file:{quote(os.fsencode(path))}?mode=ro{'&immutable=1' if unchanging else ''}"


def _abandon_connection(raw: sqlite3.Connection) -> None:
    """Keep a connection open until the process ends: the last close would copy the log into the database."""
    import ctypes  # noqa: PLC0415 - slow to import, and hardly ever needed

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))


async def _open_connection(path: Path) -> aiosqlite.Connection:
    import aiosqlite  # noqa: PLC0415 - start-up: only writing needs it

    try:
        _create_file(path)
        return await aiosqlite.connect(
            path, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000, cached_statements=256
        )
    except (OSError, sqlite3.Error) as error:
        raise _explain_refusal(path, error) from error


def _classify_database(path: Path, connection: sqlite3.Connection, newest: int = SCHEMA_VERSION) -> StoreState:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    if owner != APPLICATION_ID:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not tables and not version and not owner:
            return "absent"
        if "runs" in tables:
            raise StoreRefused(
                str(path),
                "is the run history of another tool (it has a table `runs`), not an evalctl store",
                "Use another file (--store FILE); `evalctl import` imports such histories.",
            )
        raise StoreRefused(
            str(path), "is another program's database, not an evalctl store", "Use another file: --store FILE"
        )
    if version > newest:
        raise StoreRefused(
            str(path),
            f"has schema {version}, written by a newer evalctl; this one knows schema {newest}",
            "Update evalctl, or use another store: --store FILE",
        )
    return "current" if version == newest else "older"


def _explain_refusal(path: Path, error: OSError | sqlite3.Error) -> StoreRefused:
    if isinstance(error, OSError):
        return StoreRefused(str(path), f"cannot be opened for writing: {error.strerror}")
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_NOTADB"):
        return StoreRefused(str(path), "is not a database", "Use another file: --store FILE")
    if name.startswith("SQLITE_CORRUPT"):
        return StoreRefused(str(path), f"is damaged: {error}", "Restore a copy, or use another file: --store FILE")
    if name.startswith("SQLITE_READONLY"):
        return StoreRefused(str(path), "cannot be written: it is read-only", "Use another file: --store FILE")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreRefused(str(path), "is locked by another program")
    return StoreRefused(str(path), f"cannot be opened: {error}")


def _prepare_folder(path: Path) -> None:
    folder = path.absolute().parent
    try:
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreRefused(str(path), f"its folder cannot be created: {error.strerror}") from error
    examine_store(path)
    blocked = path if path.exists() else folder
    if not os.access(blocked, os.W_OK):
        raise StoreRefused(str(path), "cannot be written: permission denied", "Use another file: --store FILE")


def _create_file(path: Path) -> None:
    """Create the file with mode 0600; SQLite gives its side files the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _set_up_connection(
    path: Path, connection: sqlite3.Connection, *, wal: bool, steps: Mapping[int, Sequence[str]]
) -> None:
    newest = max(steps)
    state = _classify_database(path, connection, newest)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")
    wanted = "wal" if wal else "delete"
    (journal,) = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
    if journal != wanted:
        raise StoreRefused(
            str(path),
            f"its file system does not support the {wanted} journal",
            "Use a store on a local disk: --store FILE",
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # A temporary file would need a descriptor, which the process may not have when it commits.
    connection.execute("PRAGMA temp_store = MEMORY")
    # A WAL that grew during a long read is cut back when it starts over.
    connection.execute("PRAGMA journal_size_limit = 4194304")
    # Reading opens the side files, also of a store that has just been given a log.
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    if state == "current":
        return
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if state == "older":
        _back_up_file(path, connection, version)
    for step in range(version + 1, newest + 1):
        _apply_migration(connection, step, steps[step])


def _back_up_file(path: Path, connection: sqlite3.Connection, version: int) -> None:
    """Back the file up before a migration, as `<store>.schema-<version>`."""
    unfinished = Path(f"{path}.schema-{version}.part")
    unfinished.unlink(missing_ok=True)
    _create_file(unfinished)
    connection.execute("VACUUM INTO ?", (str(unfinished),))
    unfinished.replace(f"{path}.schema-{version}")


def _apply_migration(connection: sqlite3.Connection, step: int, texts: Sequence[str]) -> None:
    """Apply one migration in one transaction; it writes `user_version` last, so it happens whole or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for text in texts:
            for statement in split_statements(text):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {step}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def split_statements(text: str) -> list[str]:
    """Split a SQL text into statements; `executescript` would commit the open transaction first."""
    statements: list[str] = []
    begun = ""
    for piece in text.split(";"):
        begun += piece + ";"
        if begun.strip() != ";" and sqlite3.complete_statement(begun):
            statements.append(begun.strip())
            begun = ""
    return statements
