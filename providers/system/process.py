"""Programs: started here and nowhere else, and none of them outlives the call that started it.

A program gets a session of its own, dies with this process (Linux), and carries two marks in its environment that its
descendants inherit: EVALCTL_ATTEMPT says for which attempt it works, EVALCTL_PROCESS is unique to one call of
`run_process`. What killing the process group misses (children in sessions of their own, double forks) is found by its
mark in /proc. A descendant that empties its environment *and* leaves the session escapes; only a PID namespace could
hold that one. Where there is no /proc, the group is all that is killed.

This module and `orchestrator.world` are the only ones that may ask for the time and the environment.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import signal
import sys
import time  # noqa: TID251 - one of the two places that may
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import attrs

from providers.system.marks import ATTEMPT_VARIABLE, PROCESS_VARIABLE, Reaper, for_attempt, for_process, signal_group
from store.errors import EvalctlError

if TYPE_CHECKING:
    import asyncio
    import subprocess

DRAIN_S = 0.25
"""How long a pipe may stay open after the program's exit: once before and once after the leftovers are killed."""
DEATH_S = 3.0
"""How long a killed program may take to be gone; one in uninterruptible sleep takes longer, or for ever."""

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
class Finished:
    """How a program ended and what it said."""

    exit_code: int | None
    """Negative for a signal; None where it had to be stopped for its timeout."""
    stdout: bytes
    stderr: bytes
    """Empty where the streams were merged."""
    truncated: bool
    """More was said than the limit let through."""
    timed_out: bool
    wall_ms: int
    """From the start to the end of the program itself."""
    survivors_killed: int
    """Descendants that were still running when the program had ended."""


def tool_environment(home: Path) -> dict[str, str]:
    """The variables an agent's command starts with: PATH and LANG of this process, HOME and TMPDIR in *home*.

    No other variable gets through: this process's environment holds keys.
    """
    environ = os.environ  # noqa: TID251 - one of the two places that may
    return {
        "PATH": environ.get("PATH", os.defpath),
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
    stdin: bytes = b"",
    merge: bool = False,
    pass_fds: Sequence[int] = (),
) -> Finished:
    """Run *argv* to its end and leave nothing of it alive, however it or this call ends.

    The program sees *environment* and the marks, nothing else; its first word is looked up in the PATH given there.
    Of this process's descriptors it inherits *pass_fds* alone.
    *output_limit* bounds the bytes kept of both streams together; the rest is read and thrown away. After *timeout_s*
    seconds, or when the caller is cancelled, the group gets SIGTERM, *grace_s* seconds later SIGKILL. Call it on the
    event loop's own thread, which must live as long as the program may: the kernel ties the two together.

    Raises:
        ProcessNotStarted: the program could not be started.
    """
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()
    token = secrets.token_hex(16)
    marks = {ATTEMPT_VARIABLE: marker, PROCESS_VARIABLE: token, "PYTHONDONTWRITEBYTECODE": "1"}
    with _input_file(stdin, argv) as source:
        child = _spawn(
            argv, cwd=cwd, environment={**environment, **marks}, stdin=source, merge=merge, pass_fds=pass_fds
        )
    begun = time.monotonic()
    ended = begun
    reaper = Reaper(for_process(token), leader=child.pid)
    output = _Output(loop, limit=output_limit)
    try:
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                output.listen(stream.fileno())
        with _exit_of(child, loop) as exited:
            try:
                with anyio.move_on_after(timeout_s):
                    await exited.wait()
                timed_out = not exited.is_set()
                ended = time.monotonic()
            finally:
                # Bounded by grace, reaper and drain; a cancelled caller gets its cancellation after that.
                with anyio.CancelScope(shield=True):
                    await _end(child, reaper, exited, output, grace_s)
    finally:
        # Reached without `_end` only if the loop itself is being torn down; then this is all there is time for.
        if child.poll() is None:
            signal_group(child.pid, signal.SIGKILL)
        output.close()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    stdout, stderr = (output.text(stream) for stream in (child.stdout, child.stderr))
    return Finished(
        exit_code=None if timed_out else child.returncode,
        stdout=stdout,
        stderr=stderr,
        truncated=output.truncated,
        timed_out=timed_out,
        wall_ms=round((ended - begun) * 1000),
        survivors_killed=len(reaper.killed - {child.pid}),
    )


def sweep_marker(wanted: Callable[[str, int, int], bool]) -> int:
    """Kill every process whose EVALCTL_ATTEMPT (sweep, position, attempt) is *wanted*; how many there were.

    Waits until none is left, at most a few seconds. Finds nothing where there is no /proc. Never kills the caller.
    """
    reaper = Reaper(for_attempt(wanted))
    for pause in reaper.passes():
        time.sleep(pause)
    return len(reaper.killed)


# --- starting -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _input_file(stdin: bytes, argv: Sequence[str]) -> Iterator[IO[bytes] | int]:
    """What the program reads: /dev/null, or a file in memory. A file needs no writer that could block."""
    import subprocess
    import tempfile

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
            raise ProcessNotStarted(_program(argv), f"its input: {error.strerror or 'failed'}") from error
        yield file


def _program(argv: Sequence[str]) -> str:
    """What messages call the program."""
    return str(argv[0])[:200] if argv else "nothing"


@functools.cache
def _dies_with(parent: int) -> Callable[[], None] | None:
    """What the new process does before it becomes the program: ask the kernel to be killed when *parent* dies.

    Prepared in the parent, since loading a library between fork and exec is not safe.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return before_exec


def _spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: IO[bytes] | int,
    merge: bool,
    pass_fds: Sequence[int],
) -> subprocess.Popen[bytes]:
    import subprocess

    program = _program(argv)
    try:
        return subprocess.Popen(
            list(argv),
            bufsize=0,
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
            preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509 - it makes two system calls and takes no lock
        )
    except OSError as error:
        about = "the working directory: " if str(error.filename) == str(cwd) else ""
        raise ProcessNotStarted(program, about + (error.strerror or "failed")) from error
    except (ValueError, IndexError) as error:  # NUL or an unencodable character in a word; no word at all
        raise ProcessNotStarted(program, "an argument that no program can be given") from error
    except subprocess.SubprocessError as error:
        raise ProcessNotStarted(program, "the new process failed before it became the program") from error


# --- listening ----------------------------------------------------------------------------------------------------


class _Output:
    """Keeps the first bytes of all pipes, up to one shared limit, and reads on so that no writer is held up."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, limit: int) -> None:
        import asyncio

        self.truncated = False
        self.ended = asyncio.Event()
        self._loop = loop
        self._room = limit
        self._kept: list[bytearray] = []
        self._open: set[int] = set()

    def listen(self, pipe: int) -> None:
        kept = bytearray()
        self._kept.append(kept)
        self._open.add(pipe)
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._read, pipe, kept)

    def _read(self, pipe: int, kept: bytearray) -> None:
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

    def text(self, stream: IO[bytes] | None) -> bytes:
        """What was kept of the streams, in the order in which they are asked for."""
        return bytes(self._kept.pop(0)) if stream is not None else b""

    def close(self) -> None:
        for pipe in self._open:
            self._loop.remove_reader(pipe)
        self._open.clear()


@contextlib.contextmanager
def _exit_of(child: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Event]:
    """An event that is set when the program has ended.

    With a pidfd the ended process is not reaped yet, so neither its id nor its group's can belong to others.
    """
    import asyncio

    exited = asyncio.Event()
    try:
        watched = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # another system, an old kernel, or no descriptor left
        timer: asyncio.TimerHandle | None = None

        def look() -> None:
            nonlocal timer
            if child.poll() is None:
                timer = loop.call_later(0.01, look)
            else:
                exited.set()

        look()
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


async def _end(
    child: subprocess.Popen[bytes], reaper: Reaper, exited: asyncio.Event, output: _Output, grace_s: float
) -> None:
    """Bring the program and everything it started to an end, and collect what they still had to say."""
    import anyio

    if exited.is_set():
        # `a > >(b)`: the program is done, but what it piped into may need another moment.
        with anyio.move_on_after(DRAIN_S):
            await output.ended.wait()
    else:
        signal_group(child.pid, signal.SIGTERM)
        with anyio.move_on_after(grace_s):
            await exited.wait()
    for pause in reaper.passes():
        await anyio.sleep(pause)
    signal_group(child.pid, signal.SIGKILL)  # those that took the mark out of their environment
    with anyio.move_on_after(DEATH_S):
        await exited.wait()
    with anyio.move_on_after(DRAIN_S):
        await output.ended.wait()
