"""Fixtures, read once per process, and workspaces: the private copies in which runs work."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import attrs

from orchestrator.workspaces.git import CommitFailed, commit_all
from orchestrator.workspaces.repositories import REPOSITORY_NAME, find_pointer
from providers.system.removal import remove_tree
from providers.system.tree import Tree, take_snapshot
from store.errors import EvalctlError

MAX_SMALL_BYTES = 64 * 2**10
"""Maximum size in bytes of a small fixture, which is kept in memory and copied without a thread."""

MAX_SMALL_ENTRIES = 64
"""Maximum number of files and directories of a small fixture, and of a workspace that is removed without a thread."""

SKIPPED_DIRECTORIES = frozenset({"__pycache__"})
"""Directories that are not copied: bytecode that an installation may have written beside a fixture's sources."""


WORKSPACE_NAME = "workspace"
"""Name of the workspace in the run's own directory."""

_RUN_DIRECTORY = re.compile(r"run-\d+-\d+(-\d+)?")
"""Names of the directories of runs, which lie side by side."""

_UNSAFE_CHARACTER = re.compile(r"[^\w.-]")
"""Characters of a run's name that are replaced in file names."""


@attrs.define(slots=False)
class SetupFailed(EvalctlError):
    """The workspace could not be created; the run ends as `error(setup)`."""

    fixture: str
    cause: str

    def __str__(self) -> str:
        return f"fixture {self.fixture}: {self.cause}"


@attrs.frozen(kw_only=True)
class Entry:
    """One file, directory or link of a fixture. Directories come before their contents."""

    path: str
    kind: Literal["directory", "file", "link"]
    mode: int
    content: bytes | None = None
    """Content of a small fixture's file; None in a large one, whose files are copied from the disk."""
    target: str = ""
    """Target of a link."""


@attrs.frozen(kw_only=True)
class Fixture:
    """A fixture as it is on the disk."""

    root: Path
    entries: tuple[Entry, ...]
    small: bool
    tree: Tree
    """Snapshot from which a run's changes are computed."""

    def drop_repositories(self) -> Fixture:
        """Return the fixture without any `.git`, whose files git would not add to a commit."""
        kept = tuple(entry for entry in self.entries if REPOSITORY_NAME not in entry.path.split("/"))
        return attrs.evolve(self, entries=kept)


@attrs.define(kw_only=True)
class Workspace:
    """A run's own copy of a fixture, in a directory of the run. A lazy one is written to the disk when the run first
    needs it.
    """

    fixture: Fixture
    path: Path
    """The directory in which the subject works."""
    prepared: bool = False
    """Whether the run's directory is on the disk."""
    made: bool = False
    """Whether the workspace is on the disk. If not, it equals the fixture."""
    kept: bool = False
    """Whether it stays after the run: as requested, or because it could not be removed."""

    @property
    def before(self) -> Tree:
        """Snapshot from which changes are computed."""
        return self.fixture.tree

    @property
    def directory(self) -> Path:
        """The run's own directory, which contains the workspace and its home and nothing else. Programs that look for
        their configuration in the directories above find none of another run.
        """
        return self.path.parent

    @property
    def home_path(self) -> Path:
        """Path of `home`, whether it exists or not."""
        return self.path.with_name(f"{self.path.name}.home")

    @property
    def home(self) -> Path:
        """An empty directory beside the workspace for HOME and temporary files, which do not count as changes. It is
        created on first use, since many runs need none.

        Raises:
            SetupFailed: it cannot be created.
        """
        home = self.home_path
        try:
            self._make_run_directory()
            if home.is_symlink() or not home.is_dir():
                _make_directory(home)
        except OSError as error:
            raise SetupFailed(str(self.fixture.root), _describe_os_error(error)) from error
        return home

    def copy_fixture(self) -> None:
        """Copy the fixture to the disk, unless that is done.

        Raises:
            SetupFailed: the fixture cannot be copied; the partial copy is removed.
        """
        if self.made:
            return
        try:
            self._make_run_directory()
            _make_directory(self.path)
        except OSError as error:
            raise SetupFailed(str(self.fixture.root), _describe_os_error(error)) from error
        self.made = True
        try:
            for entry in self.fixture.entries:
                _make_entry(entry, self.fixture.root, f"{self.path}/{entry.path}")
        except OSError as error:
            self.made = False
            remove_tree(self.path)
            raise SetupFailed(str(self.fixture.root), _describe_os_error(error)) from error

    async def remove_strays(self) -> tuple[str, ...]:
        """Remove everything that a run put beside its workspace and home, or beside the directories of runs, where
        programs look for configuration (`pytest.ini`, `package.json`).

        Returns the paths relative to the run's directory, sorted.
        """
        if not self.prepared:
            return ()
        own = {self.path.name, self.home_path.name}
        strays = [path for path in _list_directory(self.directory) if path.name not in own]
        beside = [path for path in _list_directory(self.directory.parent) if not _is_run_directory(path)]
        for path in (*strays, *beside):
            await anyio.to_thread.run_sync(remove_tree, path)
        return tuple(sorted([*(path.name for path in strays), *(f"../{path.name}" for path in beside)]))

    def _make_run_directory(self) -> None:
        if not self.prepared:
            _make_directory(self.directory)
            self.prepared = True


class Fixtures:
    """Cache of fixtures: reads each one once."""

    def __init__(self) -> None:
        self._read: dict[Path, Fixture] = {}

    async def read_cached(self, root: Path) -> Fixture:
        """Read the fixture in the directory *root*, or return it from the cache.

        Raises:
            SetupFailed: see `read_fixture`.
        """
        known = self._read.get(root)
        if known is not None:
            return known
        # two runs may read the same fixture at once; the result is the same, and the first one stays
        fixture = await anyio.to_thread.run_sync(read_fixture, root)
        return self._read.setdefault(root, fixture)


def read_fixture(root: Path) -> Fixture:
    """Read the fixture in *root*, with the contents of its files if it is small.

    A `.git` that leads to a repository elsewhere is left out: commits in the copy would land there.

    Raises:
        SetupFailed: *root* is not a directory, cannot be read, or contains a FIFO, socket, device, or a link that
            points outside.
    """
    try:
        entries = tuple(_walk_entries(root, root.resolve(strict=True)))
        total = sum((root / entry.path).stat().st_size for entry in entries if entry.kind == "file")
        small = total <= MAX_SMALL_BYTES and len(entries) <= MAX_SMALL_ENTRIES
        if small:
            entries = tuple(
                attrs.evolve(entry, content=(root / entry.path).read_bytes()) if entry.kind == "file" else entry
                for entry in entries
            )
        return Fixture(root=root, entries=entries, small=small, tree=take_snapshot(root))
    except OSError as error:
        raise SetupFailed(str(root), _describe_os_error(error)) from error


def _walk_entries(root: Path, real: Path, under: str = "") -> Iterator[Entry]:
    with os.scandir(root / under) as listing:
        items = sorted(listing, key=lambda entry: entry.name)
    for item in items:
        path = f"{under}/{item.name}" if under else item.name
        status = item.stat(follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if item.name == REPOSITORY_NAME and find_pointer(root / path) is not None:
            continue
        if item.is_symlink():
            yield Entry(path=path, kind="link", mode=mode, target=_checked_target(root, real, path))
        elif item.is_dir(follow_symlinks=False):
            if item.name not in SKIPPED_DIRECTORIES:
                yield Entry(path=path, kind="directory", mode=mode)
                yield from _walk_entries(root, real, path)
        elif stat.S_ISREG(status.st_mode):
            yield Entry(path=path, kind="file", mode=mode)
        else:
            raise SetupFailed(str(root), f"{path} cannot be copied: it is not a file, directory or link")


def _checked_target(root: Path, real: Path, path: str) -> str:
    target = os.readlink(root / path)  # noqa: PTH115 - the text as it is, not a normalised path
    leads = Path(os.path.realpath((root / path).parent / target))
    if os.path.isabs(target) or not leads.is_relative_to(real):  # noqa: PTH117 - the text
        raise SetupFailed(str(root), f"{path} is a link that points outside the fixture")
    return target


@asynccontextmanager
async def open_workspace(
    fixture: Fixture,
    *,
    git: bool,
    keep: bool,
    parent: Path,
    name: str,
    lazy: bool = False,
    environment: Mapping[str, str] | None = None,
    marker: str = "",
) -> AsyncIterator[Workspace]:
    """Open a private copy of *fixture* below *parent*, and remove it at the end unless *keep*.

    Args:
        fixture: the fixture to copy.
        git: whether the copy is a git repository with one commit; repositories in the fixture are then left out.
        keep: whether the copy stays after the block.
        parent: the directory of all workspaces of the process.
        name: the name of the run, from which the name of its directory is made.
        lazy: whether the copy is only made by `Workspace.copy_fixture`; ignored for large fixtures, *git* and *keep*.
            Lazy workspaces that are open at the same time need different names.
        environment: for the git processes, which get its PATH.
        marker: marks the git processes.

    Raises:
        SetupFailed: the fixture cannot be copied, or git fails.
    """
    deferred = lazy and fixture.small and not git and not keep
    path = (_directory_path(parent, name) if deferred else _find_free_path(parent, name)) / WORKSPACE_NAME
    workspace = Workspace(fixture=fixture.drop_repositories() if git else fixture, path=path)
    try:
        if not fixture.small:
            await anyio.to_thread.run_sync(workspace.copy_fixture)
        elif not deferred:
            workspace.copy_fixture()
        if git:
            await _commit_fixture(workspace, environment or {}, marker)
        yield workspace
    finally:
        if workspace.prepared:
            workspace.kept = keep
            if not keep and not _remove_workspace(workspace, at_most=MAX_SMALL_ENTRIES):
                with anyio.CancelScope(shield=True):
                    workspace.kept = not await anyio.to_thread.run_sync(_remove_workspace, workspace)


async def _commit_fixture(workspace: Workspace, environment: Mapping[str, str], marker: str) -> None:
    try:
        await commit_all(workspace.path, home=workspace.home, environment=environment, marker=marker)
    except CommitFailed as error:
        raise SetupFailed(str(workspace.fixture.root), str(error)) from error


def _remove_workspace(workspace: Workspace, at_most: int | None = None) -> bool:
    return remove_tree(workspace.directory, at_most=at_most)


def _list_directory(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []


def _is_run_directory(path: Path) -> bool:
    return _RUN_DIRECTORY.fullmatch(path.name) is not None and path.is_dir() and not path.is_symlink()


def _directory_path(parent: Path, name: str) -> Path:
    return parent / (_UNSAFE_CHARACTER.sub("-", name)[:100].lstrip(".") or "run")


def _find_free_path(parent: Path, name: str) -> Path:
    path = wanted = _directory_path(parent, name)
    for number in count(2):
        if not os.path.lexists(path):
            break
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path


def _make_directory(path: Path) -> None:
    """Create the directory *path*, and repair damage to its parent: the runs of a process share it and can write there.

    An existing directory may be another run's workspace, so it stays and the error is raised; a file or link in the
    place was put there by a command and is removed.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if path.is_dir() and not path.is_symlink():
            raise
        path.unlink()
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except NotADirectoryError:
        path.parent.unlink()
        path.parent.mkdir(mode=0o700)
        path.mkdir(mode=0o700)
    except PermissionError:
        path.parent.chmod(0o700)
        path.mkdir(mode=0o700)


def _make_entry(entry: Entry, root: Path, path: str) -> None:
    if entry.kind == "directory":
        os.mkdir(path, entry.mode | stat.S_IRWXU)  # noqa: PTH102 - called for every file of every run
    elif entry.kind == "link":
        os.symlink(entry.target, path)  # noqa: PTH211
    else:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if entry.content is None:
                with open(handle, "wb", closefd=False) as file, (root / entry.path).open("rb") as source:
                    shutil.copyfileobj(source, file, 2**20)
            else:
                left = memoryview(entry.content)
                while left:
                    left = left[os.write(handle, left) :]
            # Independent of the umask, and writable by the owner: an installed suite may be read-only.
            os.fchmod(handle, entry.mode | stat.S_IRUSR | stat.S_IWUSR)
        finally:
            os.close(handle)


def _describe_os_error(error: OSError) -> str:
    problem = error.strerror or type(error).__name__
    return f"{problem}: {error.filename}" if error.filename else problem
