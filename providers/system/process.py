"""Subprocesses: the only module that starts programs, none of which outlives the call that started it.

A program gets a session (and process group) of its own, dies with this process (Linux), and has two marks in its
environment that its descendants inherit: EVALCTL_ATTEMPT names its attempt, EVALCTL_PROCESS is unique to one call of
`run_process`. Descendants outside the process group (sessions of their own, double forks) are found by their mark in
/proc. A descendant that clears its environment *and* leaves the session escapes; only a PID namespace could hold it.
Without /proc only the process group is killed.

Only this module and `orchestrator.world` may read the clock and the environment.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time  # noqa: TID251 - one of the two places that may
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import attrs

from providers.system.marks import (
    ATTEMPT_VARIABLE,
    PROCESS_VARIABLE,
    Reaper,
    match_attempt,
    match_process,
    signal_group,
)
from providers.system.paths import keep_absolute_entries
from store.errors import EvalctlError

if TYPE_CHECKING:
    import asyncio

DRAIN_TIMEOUT_S = 0.25
"""Seconds that a pipe may stay open after the program's exit: once before and once after survivors are killed."""
DEATH_TIMEOUT_S = 3.0
"""Seconds to wait for a killed program to end; one in uninterruptible sleep may never end."""

EXHAUSTED_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a process that has no file descriptor left: they say nothing about the program."""

_READ_BYTES = 1 << 16
_PR_SET_PDEATHSIG = 1


@attrs.define(slots=False)
class ProcessNotStarted(EvalctlError):
    """A program could not be started: it is missing, not executable, or its directory is."""

    program: str
    problem: str

    def __str__(self) -> str:
        return f"cannot start {self.program}: {self.problem}"


@attrs.frozen(kw_only=True)
class ProcessStreams:
    """The descriptors of a program: its standard input and outputs, and others that it inherits."""

    stdin: bytes = b""
    """Bytes that it can read from its standard input."""
    merge: bool = False
    """True if standard error goes to the same pipe as standard output."""
    pass_fds: tuple[int, ...] = ()
    """Further descriptors of this process that it inherits."""


DEFAULT_STREAMS = ProcessStreams()
"""No input, two outputs, no further descriptors."""


@attrs.frozen(kw_only=True)
class FinishedProcess:
    """The result of a program: exit code and output."""

    exit_code: int | None
    """Exit code; negative for a signal, None if the program was stopped by its timeout."""
    stdout: bytes
    stderr: bytes
    """Standard error; empty if the streams were merged."""
    truncated: bool
    """True if the output exceeded the limit and was cut."""
    timed_out: bool
    wall_ms: int
    """Milliseconds from the program's start to its own end."""
    survivors_killed: int
    """Number of descendants that were still running after the program's end."""


def build_tool_environment(home: Path) -> dict[str, str]:
    """The environment of an agent's command: PATH and LANG of this process, and *home* as HOME and TMPDIR.

    No other variable is passed on, since this process's environment contains keys.
    """
    environ = os.environ  # noqa: TID251 - one of the two places that may
    return {
        "PATH": keep_absolute_entries(environ.get("PATH", "")),
        "LANG": environ.get("LANG", "C.UTF-8"),
        "HOME": str(home),
        "TMPDIR": str(home),
    }


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    marker: str,
    timeout_s: float,
    output_limit: int,
    grace_s: float = 2.0,
    streams: ProcessStreams = DEFAULT_STREAMS,
) -> FinishedProcess:
    """Run *argv* to its end and leave none of its processes alive, however the program or this call ends.

    The program sees only *environment* and the marks, and inherits only the descriptors of *streams*. Relative and
    empty entries are removed from the PATH of *environment*, on which the program's first word is looked up.
    *output_limit* limits the bytes kept of both streams together; the rest is read and discarded. After *timeout_s*
    seconds, or on cancellation, the process group gets SIGTERM, and SIGKILL *grace_s* seconds later. Call it on the
    event loop's own thread, which must outlive the program: the kernel kills the program when that thread ends.

    Raises:
        ProcessNotStarted: the program could not be started.
        OSError: this process has no file descriptor left.
    """
    import asyncio  # noqa: PLC0415 - start-up: only running needs an event loop

    import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

    loop = asyncio.get_running_loop()
    token = secrets.token_hex(16)
    environment = {**environment, "PATH": keep_absolute_entries(environment.get("PATH", ""))}
    marks = {ATTEMPT_VARIABLE: marker, PROCESS_VARIABLE: token, "PYTHONDONTWRITEBYTECODE": "1"}
    with _open_input(streams.stdin, argv) as source:
        child = _spawn_program(argv, cwd=cwd, environment={**environment, **marks}, stdin=source, streams=streams)
    begun = time.monotonic()
    ended = begun
    reaper = Reaper(match_process(token), leader=child.pid)
    output = _OutputBuffer(loop, limit=output_limit)
    try:
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                output.listen_to(stream.fileno())
        with _watch_exit(child, loop) as exited:
            try:
                with anyio.move_on_after(timeout_s):
                    await exited.wait()
                timed_out = not exited.is_set()
                ended = time.monotonic()
            finally:
                # Limited by grace, reaper and drain; a cancelled caller continues with its cancellation after that.
                with anyio.CancelScope(shield=True):
                    await _end_program(child, reaper, exited, output, grace_s)
    finally:
        # Reached without `_end_program` only if the loop itself is being torn down, which leaves no time for more.
        if child.poll() is None:
            signal_group(child.pid, signal.SIGKILL)
        output.close()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    stdout, stderr = (output.take_bytes(stream) for stream in (child.stdout, child.stderr))
    return FinishedProcess(
        exit_code=None if timed_out else child.returncode,
        stdout=stdout,
        stderr=stderr,
        truncated=output.truncated,
        timed_out=timed_out,
        wall_ms=round((ended - begun) * 1000),
        survivors_killed=len(reaper.killed - {child.pid}),
    )


def kill_marked_processes(wanted: Callable[[str, int, int], bool]) -> int:
    """Kill every process whose EVALCTL_ATTEMPT (sweep, position, attempt) is *wanted*; returns their number.

    Waits until none is left, at most a few seconds. Finds nothing without /proc. Never kills the caller.
    """
    reaper = Reaper(match_attempt(wanted))
    for pause in reaper.run_passes():
        time.sleep(pause)
    return len(reaper.killed)


# --- starting -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_input(stdin: bytes, argv: Sequence[str]) -> Iterator[IO[bytes] | int]:
    """Open the program's standard input: /dev/null or a file in memory, which needs no writer that could block."""
    if not stdin:
        yield subprocess.DEVNULL
        return
    with contextlib.ExitStack() as opened:
        try:
            if sys.platform == "linux":
                file = opened.enter_context(os.fdopen(os.memfd_create("stdin"), "w+b"))
            else:
                file = opened.enter_context(tempfile.TemporaryFile())
            file.write(stdin)
            file.seek(0)
        except OSError as error:
            raise ProcessNotStarted(_name_program(argv), f"its input: {error.strerror or 'failed'}") from error
        yield file


def _name_program(argv: Sequence[str]) -> str:
    """The program's name in messages."""
    return str(argv[0])[:200] if argv else "nothing"


@functools.cache
def _build_preexec(parent: int) -> Callable[[], None] | None:
    """The function that a new process runs before exec: it asks the kernel to kill it when *parent* dies.

    Prepared in the parent, since loading a library between fork and exec is unsafe.
    """
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - start-up: only starting a program needs it

    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the request
            os._exit(1)

    return before_exec


def _spawn_program(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: IO[bytes] | int,
    streams: ProcessStreams,
) -> subprocess.Popen[bytes]:
    program = _name_program(argv)
    try:
        return subprocess.Popen(
            list(argv),
            bufsize=0,
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if streams.merge else subprocess.PIPE,
            start_new_session=True,
            pass_fds=streams.pass_fds,
            preexec_fn=_build_preexec(os.getpid()),  # noqa: PLW1509 - it makes two system calls and takes no lock
        )
    except OSError as error:
        if error.errno in EXHAUSTED_ERRNOS:
            raise
        about = "the working directory: " if str(error.filename) == str(cwd) else ""
        raise ProcessNotStarted(program, about + (error.strerror or "failed")) from error
    except (ValueError, IndexError) as error:  # NUL or an unencodable character in a word; no word at all
        raise ProcessNotStarted(program, "an argument that no program can be given") from error
    except subprocess.SubprocessError as error:
        raise ProcessNotStarted(program, "the new process failed before it became the program") from error


# --- output -------------------------------------------------------------------------------------------------------


class _OutputBuffer:
    """Keeps the first bytes of all pipes up to a shared limit, and reads on so that no writer blocks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, limit: int) -> None:
        import asyncio  # noqa: PLC0415 - start-up: only running needs an event loop

        self.truncated = False
        self.ended = asyncio.Event()
        self._loop = loop
        self._room = limit
        self._kept: list[bytearray] = []
        self._open: set[int] = set()

    def listen_to(self, pipe: int) -> None:
        kept = bytearray()
        self._kept.append(kept)
        self._open.add(pipe)
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._read_pipe, pipe, kept)

    def _read_pipe(self, pipe: int, kept: bytearray) -> None:
        try:
            piece = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._loop.remove_reader(pipe)
            self._open.discard(pipe)
            if not self._open:
                self.ended.set()
            return
        kept += piece[: self._room]
        self.truncated = self.truncated or len(piece) > self._room
        self._room -= min(len(piece), self._room)

    def take_bytes(self, stream: IO[bytes] | None) -> bytes:
        """The bytes kept of the streams, in the order of the calls."""
        return bytes(self._kept.pop(0)) if stream is not None else b""

    def close(self) -> None:
        for pipe in self._open:
            self._loop.remove_reader(pipe)
        self._open.clear()


@contextlib.contextmanager
def _watch_exit(child: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Event]:
    """Provide an event that is set when the program has ended.

    With a pidfd the ended process is not reaped yet, so neither its id nor its group's can be reused.
    """
    import asyncio  # noqa: PLC0415 - start-up: only running needs an event loop

    exited = asyncio.Event()
    try:
        watched = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # another system, an old kernel, or no descriptor left
        timer: asyncio.TimerHandle | None = None

        def poll_exit() -> None:
            nonlocal timer
            if child.poll() is None:
                timer = loop.call_later(0.01, poll_exit)
            else:
                exited.set()

        poll_exit()
        try:
            yield exited
        finally:
            if timer is not None:
                timer.cancel()
        return

    def note_exit() -> None:
        loop.remove_reader(watched)
        exited.set()

    loop.add_reader(watched, note_exit)
    try:
        yield exited
    finally:
        loop.remove_reader(watched)
        os.close(watched)


# --- ending -------------------------------------------------------------------------------------------------------


async def _end_program(
    child: subprocess.Popen[bytes], reaper: Reaper, exited: asyncio.Event, output: _OutputBuffer, grace_s: float
) -> None:
    """End the program and all its descendants, and collect the rest of their output."""
    import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

    if exited.is_set():
        # `a > >(b)`: the program has ended, but the one it pipes into may need another moment.
        with anyio.move_on_after(DRAIN_TIMEOUT_S):
            await output.ended.wait()
    else:
        signal_group(child.pid, signal.SIGTERM)
        with anyio.move_on_after(grace_s):
            await exited.wait()
    for pause in reaper.run_passes():
        await anyio.sleep(pause)
    signal_group(child.pid, signal.SIGKILL)  # processes that removed the mark from their environment
    with anyio.move_on_after(DEATH_TIMEOUT_S):
        await exited.wait()
    with anyio.move_on_after(DRAIN_TIMEOUT_S):
        await output.ended.wait()
