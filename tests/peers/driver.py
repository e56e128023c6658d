"""Drives real processes from outside: starts endpoint and command, waits for what it can see, sends real signals."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time  # noqa: TID251 - waits on processes with a deadline
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

Json = Any
T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("evalctl")
PATIENCE_S = 60.0
"""How long anything may take on a loaded machine before a test says what it waited for."""


def until(look: Callable[[], T], what: str, *, patience_s: float = PATIENCE_S, every_s: float = 0.005) -> T:
    """The first truthy answer of *look*.

    Raises:
        AssertionError: nothing within *patience_s*; the message names *what*.
    """
    deadline = time.monotonic() + patience_s
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"waited {patience_s:g} s for {what}"
        time.sleep(every_s)


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """An environment that knows nothing of whoever runs the tests; folders are below *home*."""
    return {
        "PATH": os.environ["PATH"],  # noqa: TID251 - programs are found where they are installed
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TMPDIR": str(home / "tmp"),
        "EVALCTL_STATE_HOME": str(home / "state"),
        "EVALCTL_CONFIG_HOME": str(home / "config"),
        "EVALCTL_STORE": str(home / "store" / "runs.db"),
    } | more


@attrs.frozen(kw_only=True)
class Endpoint:
    """A running counting endpoint."""

    process: subprocess.Popen[str]
    port: int
    ledger: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def call(self, method: str, path: str, body: Json = None) -> Json:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())

    def counts(self) -> Json:
        return self.call("GET", "/ledger")

    def release(self, count: int | None = None) -> None:
        self.call("POST", "/release" if count is None else f"/release?count={count}")

    def plan(self, *rules: Json) -> None:
        self.call("POST", "/plan", {"rules": rules})

    def lines(self) -> list[Json]:
        """Every request that has ended so far, in the order of their ends."""
        if not self.ledger.exists():
            return []
        return [json.loads(line) for line in self.ledger.read_text(encoding="ascii").splitlines()]

    def idle(self) -> list[Json]:
        """The lines once nothing is in flight any more."""
        until(lambda: self.counts()["in_flight"] == 0, "the endpoint to have nothing in flight")
        return self.lines()


@contextlib.contextmanager
def running_endpoint(
    ledger: Path, *rules: Json, latency_ms: float = 0.0, program: str = "endpoint", more: Sequence[str] = ()
) -> Iterator[Endpoint]:
    """Start the counting endpoint (or another *program* of this folder like it) in a process of its own, and end it."""
    argv = [sys.executable, "-m", f"tests.peers.{program}", "--ledger", str(ledger), "--with-stdin"]
    argv += ["--latency-ms", str(latency_ms), *more]
    if rules:
        plan = ledger.with_suffix(".plan.json")
        plan.write_text(json.dumps({"rules": rules}), encoding="utf-8")
        argv += ["--plan", str(plan)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = json.loads(process.stdout.readline())
            yield Endpoint(process=process, port=said["port"], ledger=ledger)
        finally:
            process.stdin.close()
            process.wait(PATIENCE_S)


@attrs.frozen(kw_only=True)
class Finished:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Json:
        """The last JSON document on stdout: with `--json` the report comes last."""
        return json.loads(self.stdout.splitlines()[-1])


@attrs.frozen(kw_only=True)
class Started:
    """A command that runs now, its output in files: a full pipe must not stop it."""

    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """stderr so far."""
        return self.stderr.read_text(encoding="utf-8", errors="replace")

    def finish(self, patience_s: float = PATIENCE_S) -> Finished:
        """Wait for the end; never accept a traceback."""
        code = self.process.wait(patience_s)
        done = Finished(code=code, stdout=self.stdout.read_text(encoding="utf-8", errors="replace"), stderr=self.said())
        # on stdout a traceback may be data: what a task's own check said
        assert "Traceback (most recent call last)" not in done.stderr, done.stderr
        return done


def through(module: str, *arguments: str) -> Sequence[str]:
    """A prefix's place: the same command through a *module* of this folder, which is given *arguments* first."""
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:2] = {list(arguments)!r}; "
        f"runpy.run_module('tests.peers.{module}', run_name='__main__')"
    )
    return [sys.executable, "-c", code]


class Driver:
    """Runs the installed command in a folder of its own."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home = home
        self.environment = dict(environment)
        self._started: list[Started] = []
        (home / "tmp").mkdir(parents=True, exist_ok=True)

    @property
    def store(self) -> Path:
        return Path(self.environment["EVALCTL_STORE"])

    def start(
        self,
        *arguments: str | Path,
        prefix: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
    ) -> Started:
        """Start `evalctl ARGUMENTS`; *prefix* goes before the program."""
        number = len(self._started)
        out, err = self.home / f"{number}.stdout", self.home / f"{number}.stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(  # kept in _started and ended by close
                [*prefix, str(COMMAND), *map(str, arguments)],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=self.home,
                env=self.environment,
            )
        started = Started(process=process, stdout=out, stderr=err)
        self._started.append(started)
        return started

    def run(self, *arguments: str | Path, prefix: Sequence[str] = (), patience_s: float = PATIENCE_S) -> Finished:
        """Start and wait."""
        return self.start(*arguments, prefix=prefix).finish(patience_s)

    def close(self) -> None:
        """End whatever a failed test left running, stopped processes too."""
        for started in self._started:
            if started.process.poll() is None:
                started.kill()
        with contextlib.suppress(sqlite3.DatabaseError):  # a test may have put something else in the store's place
            for pid in marked(self.sweep_names()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # --- the store's file, read from outside ------------------------------------------------------------------

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows of the store; empty while it does not exist or has no tables yet."""
        try:
            connection = sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=PATIENCE_S)
        except sqlite3.OperationalError:
            return []
        with contextlib.closing(connection):
            try:
                return connection.execute(sql, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error) or "unable to open" in str(error):
                    return []
                raise

    def number(self, sql: str, *parameters: object) -> int:
        """The one number a query yields; 0 while there is none."""
        rows = self.query(sql, *parameters)
        return int(rows[0][0] or 0) if rows else 0

    def sweep_names(self) -> list[str]:
        return [name for (name,) in self.query("SELECT name FROM sweep ORDER BY id")]

    def finished_positions(self) -> set[int]:
        """Runs with a committed outcome that counts."""
        sql = "SELECT run.position FROM run JOIN current ON current.run_id = run.id WHERE current.again = 0"
        return {position for (position,) in self.query(sql)}

    def assert_sound(self) -> None:
        """The file is whole, and no run has two current results."""
        assert self.query("PRAGMA integrity_check") == [("ok",)]
        assert self.query("SELECT run_id FROM current GROUP BY run_id HAVING count(*) > 1") == []

    @contextlib.contextmanager
    def turnstile_held(self) -> Iterator[None]:
        """Nobody commits while this is open."""
        with Path(f"{self.store}.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def turnstile_is_free(self) -> bool:
        """Whether nobody commits at this moment."""
        with Path(f"{self.store}.lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            fcntl.flock(file, fcntl.LOCK_UN)
            return True


@contextlib.contextmanager
def driving(folder: Path, **environment: str) -> Iterator[Driver]:
    """Yield the installed command with a home of its own in *folder*, and close it at the end."""
    home = folder / "home"
    home.mkdir()
    driver = Driver(home, clean_environment(home, **environment))
    try:
        yield driver
    finally:
        driver.close()


def marked(sweeps: Sequence[str]) -> list[int]:
    """Processes that carry the marker of an attempt of one of *sweeps*."""
    if not sweeps:
        return []
    marker = re.compile(rb"(?:^|\0)EVALCTL_ATTEMPT=(?:%b)/" % b"|".join(re.escape(s.encode()) for s in sweeps))
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if marker.search((folder / "environ").read_bytes()):
                    found.append(int(folder.name))
    return found


def positions(lines: Sequence[Json]) -> dict[int, set[int]]:
    """Position -> attempt numbers, from the Idempotency-Keys of ledger lines."""
    seen: dict[int, set[int]] = {}
    for line in lines:
        _, position, attempt, _ = line["key"].rsplit("/", 3)
        seen.setdefault(int(position), set()).add(int(attempt))
    return seen
