"""Optional sandbox for programs of the agent or a suite: bubblewrap (`bwrap`), started for each program.

Inside, a program sees the machine read-only, its run's workspace and home writable, a private `/tmp`, and no processes
but its own descendants. It has no capabilities, and no network unless its run may use `external`. Users' homes, the
store, temporary files and the sockets of services are hidden. The process tree dies with `bwrap`, so that ending a
program works as without a sandbox.

Limits: it does not restrict memory, CPU or disk, and it hides nothing else that the user can read.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from providers.system.paths import build_git_ceilings, keep_absolute_entries
from providers.system.process import FinishedProcess, ProcessNotStarted, ProcessStreams, run_process
from store.errors import EvalctlError

if TYPE_CHECKING:
    from store.events import Json

SandboxKind = Literal["none", "bwrap"]
SANDBOX_KINDS: tuple[SandboxKind, ...] = ("none", "bwrap")

HIDDEN_DIRECTORIES = (Path("/home"), Path("/root"), Path("/run"), Path("/media"), Path("/mnt"), Path("/var/tmp"))  # noqa: S108 - to hide it
"""Homes, sockets of services (a container engine's is equivalent to root), other disks, files of other programs."""
SYSTEM_DIRECTORIES = frozenset(
    map(Path, ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"))
)
"""Directories that every program needs, which are never hidden."""
PROBE_TIMEOUT_S = 20.0
_SHIM_SIBLINGS = ("bin", "installs", "lib", "libexec", "plugins", "version", "versions")
"""Directories of version managers (pyenv, rbenv, asdf) beside the `shims` that they put on PATH."""
_PRIVATE_TMP = Path("/tmp")  # noqa: S108 - inside, it belongs to one program
_PROBE_SCRIPT = """
set -e
echo written > inside
if (echo > /etc/evalctl-probe) 2>/dev/null; then echo "the machine is writable" >&2; exit 1; fi
if ! command -v python3 > /dev/null || python3 -c ''; then exit 0; fi
echo "the python3 of PATH does not run inside" >&2
exit 1
"""


@attrs.define(slots=False)
class SandboxUnusable(EvalctlError):
    """The requested sandbox does not work on this machine."""

    problem: str

    def __str__(self) -> str:
        return (
            f"--sandbox bwrap: {self.problem}\n"
            "Install bubblewrap and allow it to create namespaces (in a container: --security-opt seccomp=unconfined, "
            "or more), or use --sandbox none."
        )


@attrs.frozen(kw_only=True)
class Sandbox:
    """The confinement of programs; equal for all runs of a sweep except for the network."""

    program: Path
    """Path of bwrap."""
    hidden: tuple[Path, ...]
    """Directories that are empty inside the sandbox; none contains another."""
    visible: tuple[tuple[Path, Path], ...] = ()
    """(real path, path inside): parts of hidden directories that programs need, read-only."""
    network: bool = False
    """True if programs may connect, including to this machine."""

    def build_argv(self, argv: Sequence[str], *, writable: Iterable[Path], status: int) -> list[str]:
        """Build the command line that runs *argv* confined, with only *writable* and a private /tmp writable.

        *status* is the descriptor to which bwrap writes its status. Order matters: later mounts cover earlier ones.
        """
        words = [str(self.program), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for place in self.hidden:
            words += ["--tmpfs", str(place)]
        for source, seen in self._list_visible():
            words += ["--ro-bind-try", str(source), str(seen)]
        for place in dict.fromkeys(path.resolve() for path in writable):
            words += ["--bind", str(place), str(place)]
        for place in self.hidden:
            if place != _PRIVATE_TMP:
                words += ["--remount-ro", str(place)]
        words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        if not self.network:
            words.append("--unshare-net")
        words += ["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--json-status-fd", str(status)]
        return [*words, "--", *argv]

    def _list_visible(self) -> Iterator[tuple[Path, Path]]:
        yield from self.visible
        names = Path("/etc/resolv.conf").resolve()
        if self.network and _lies_within(names, self.hidden):  # name resolution needs files in /run
            yield names, names


def find_bubblewrap(environment: Mapping[str, str], *, store: Path) -> Sandbox:
    """Find the sandbox of this machine for programs with the PATH of *environment*. It is not tested yet: see
    `prove_sandbox`.

    Raises:
        SandboxUnusable: bwrap is missing, or the directory of *store* (the file to hide) cannot be hidden.
    """
    path = keep_absolute_entries(environment.get("PATH", ""))
    program = shutil.which("bwrap", path=path)
    if program is None:
        raise SandboxUnusable("bwrap is not on PATH")
    kept = store.parent.resolve()
    if kept in SYSTEM_DIRECTORIES:
        raise SandboxUnusable(f"the store is in {kept}, which the sandbox cannot hide; give it its own directory")
    hidden = _select_hidden(
        [*_find_homes(environment), Path(tempfile.gettempdir()), _PRIVATE_TMP, *HIDDEN_DIRECTORIES, kept]
    )
    return Sandbox(program=Path(program), hidden=hidden, visible=tuple(_find_visible(path, hidden)))


async def prove_sandbox(sandbox: Sandbox, environment: Mapping[str, str]) -> None:
    """Test the sandbox with a small program, which must be able to do what it should and nothing else.

    Raises:
        SandboxUnusable: the sandbox does not work; the problem is its output.
    """
    with tempfile.TemporaryDirectory(prefix="evalctl-probe-") as made:
        try:
            finished = await run_confined(
                sandbox,
                ["sh", "-c", _PROBE_SCRIPT],
                cwd=Path(made),
                environment={"PATH": environment.get("PATH", ""), "HOME": made, "TMPDIR": made},
                marker="",
                timeout_s=PROBE_TIMEOUT_S,
                output_limit=4096,
            )
        except ProcessNotStarted as error:
            raise SandboxUnusable(error.problem) from error
        if finished.timed_out:
            raise SandboxUnusable(f"a probe took longer than {PROBE_TIMEOUT_S:g} s")
        if finished.exit_code != 0 or not (Path(made) / "inside").exists():
            raise SandboxUnusable(f"a probe failed: {_take_last_line(finished.stderr) or 'it printed nothing'}")


async def run_confined(
    sandbox: Sandbox | None,
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    marker: str,
    timeout_s: float,
    output_limit: int,
) -> FinishedProcess:
    """`run_process` in *sandbox* with *cwd* and the HOME of *environment* writable; unconfined if *sandbox* is None.

    Git finds no repository above *cwd* or HOME, so that a commit cannot land in one that surrounds the workspace.

    In a sandbox, a program ended by a signal has the exit code 128 plus the signal's number, as in a shell, and a
    timeout gives it no grace period.

    Raises:
        ProcessNotStarted: the program, or the sandbox around it, could not be started.
    """
    home = environment.get("HOME")
    ceilings = build_git_ceilings([cwd, *([Path(home)] if home else [])])
    environment = {**environment, "GIT_CEILING_DIRECTORIES": ceilings}
    if sandbox is None:
        return await run_process(
            argv,
            cwd=cwd,
            environment=environment,
            marker=marker,
            timeout_s=timeout_s,
            output_limit=output_limit,
        )
    program = argv[0][:200] if argv else "nothing"
    status_reader, status = os.pipe()
    try:
        try:
            finished = await run_process(
                sandbox.build_argv(argv, writable=[cwd, *([Path(home)] if home else [])], status=status),
                cwd=cwd,
                environment=environment,
                marker=marker,
                timeout_s=timeout_s,
                output_limit=output_limit,
                streams=ProcessStreams(pass_fds=(status,)),
            )
        finally:
            os.close(status)
        report = _read_status(status_reader)
    finally:
        os.close(status_reader)
    # bwrap reports an exit code only for a program that it started; its own failure must not count as the program's.
    if not finished.timed_out and "exit-code" not in report and finished.exit_code not in (None, -9, -15):
        raise ProcessNotStarted(program, _take_last_line(finished.stderr) or "the sandbox could not be made")
    return finished


def _read_status(pipe: int) -> Mapping[str, Json]:
    """Read bwrap's status, a sequence of JSON objects. All writers have ended, so reading does not block."""
    os.set_blocking(pipe, False)
    try:
        text = os.read(pipe, 1 << 16).decode("utf-8", "replace")
    except BlockingIOError:
        return {}
    status: dict[str, Json] = {}
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        status |= row if isinstance(row, dict) else {}
    return status


def _take_last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("bwrap: ")[:200] if lines else ""


# --- what is hidden and what is seen ------------------------------------------------------------------------------


def _find_homes(environment: Mapping[str, str]) -> Iterator[Path]:
    """The user's home according to the environment and to the system."""
    if environment.get("HOME", "").startswith("/"):
        yield Path(environment["HOME"])
    try:
        yield Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # the user is not in the password database, as in containers
        return


def _select_hidden(wanted: Iterable[Path]) -> tuple[Path, ...]:
    """The directories of *wanted* that exist and can be hidden, without those inside another one."""
    hidden: list[Path] = []
    for place in sorted({path.resolve() for path in wanted}):
        if place not in SYSTEM_DIRECTORIES and place.is_dir() and not _lies_within(place, hidden):
            hidden.append(place)
    return tuple(hidden)


def _lies_within(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _find_visible(path: str, hidden: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """The directories of PATH, and those that its python needs, if they lie in hidden directories."""
    needed = [Path(word) for word in path.split(os.pathsep) if word.startswith("/")]
    for shims in [place for place in needed if place.name == "shims"]:
        needed += [shims.parent / part for part in _SHIM_SIBLINGS]
    for name in ("python3", "python"):
        python = shutil.which(name, path=path)
        if python is not None:
            needed += _list_python_parts(Path(python))
    yielded: set[tuple[Path, Path]] = set()
    for place in needed:
        real = place.resolve()
        for seen in dict.fromkeys((place, real)):
            if real.exists() and _lies_within(seen, hidden) and real not in hidden and (real, seen) not in yielded:
                yielded.add((real, seen))
                yield real, seen


def _list_python_parts(program: Path) -> Iterator[Path]:
    """Parts of the virtual environment or installation of *program*, and of the installation behind it."""
    for root in dict.fromkeys((program.parent.parent, program.resolve().parent.parent)):
        yield from (root / part for part in ("bin", "lib", "lib64", "pyvenv.cfg"))
