"""Pristine fixtures, read once per process, and the private copies that runs work in."""

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

from providers.system.removal import remove_tree
from providers.system.tree import Tree, take_snapshot
from store.errors import EvalctlError

MAX_SMALL_BYTES = 64 * 2**10
"""Bytes: a fixture of at most so much content is kept in memory and copied without a thread."""

MAX_SMALL_ENTRIES = 64
"""Files and directories: the same, for their number; also how much of a workspace is removed without a thread."""

SKIPPED_DIRECTORIES = frozenset({"__pycache__"})
"""Never copied: bytecode that an installation may have left beside a fixture's sources."""


_UNSAFE_CHARACTER = re.compile(r"[^\w.-]")
"""What a run's name may hold and a file's had better not."""


@attrs.define(slots=False)
class SetupFailed(EvalctlError):
    """The workspace could not be made; the run ends as `error(setup)`."""

    fixture: str
    cause: str

    def __str__(self) -> str:
        return f"fixture {self.fixture}: {self.cause}"


@attrs.frozen(kw_only=True)
class Entry:
    """One thing to make in a workspace. Directories come before what is in them."""

    path: str
    kind: Literal["directory", "file", "link"]
    mode: int
    content: bytes | None = None
    """A small fixture's file; None in a large one, whose files are copied from the disk."""
    target: str = ""
    """Where a link leads."""


@attrs.frozen(kw_only=True)
class Fixture:
    """A fixture as it is on disk."""

    root: Path
    entries: tuple[Entry, ...]
    small: bool
    tree: Tree
    """What a run's changes are told from."""


@attrs.define(kw_only=True)
class Workspace:
    """A run's own copy of a fixture: a place from the beginning, on the disk once something is to happen there."""

    fixture: Fixture
    path: Path
    """Where the subject works."""
    made: bool = False
    """It is on the disk. One that never was differs in nothing from the fixture."""
    kept: bool = False
    """It is still there: asked for, or it could not be removed."""

    @property
    def before(self) -> Tree:
        """What changes are told from."""
        return self.fixture.tree

    @property
    def home_path(self) -> Path:
        """The place of `home`, on the disk or not."""
        return self.path.with_name(f"{self.path.name}.home")

    @property
    def home(self) -> Path:
        """An empty directory beside the workspace, for HOME and temporary files: what is written there is nobody's
        change. Made when first asked for; many runs need none.
        """
        beside = self.home_path
        try:
            if beside.is_symlink() or not beside.is_dir():
                _make_directory(beside)
        except OSError as error:
            raise SetupFailed(str(self.fixture.root), _describe_os_error(error)) from error
        return beside

    def copy_fixture(self) -> None:
        """Copy the fixture, unless that has been done.

        Raises:
            SetupFailed: it cannot be copied; then nothing is left of it.
        """
        if self.made:
            return
        try:
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


class Fixtures:
    """Reads each fixture once."""

    def __init__(self) -> None:
        self._read: dict[Path, Fixture] = {}

    async def read_cached(self, root: Path) -> Fixture:
        """The fixture in the directory *root*.

        Raises:
            SetupFailed: it cannot be read, or holds what cannot be copied.
        """
        known = self._read.get(root)
        if known is not None:
            return known
        # two runs may read the same fixture at once; both read the same, and the first one stays
        found = await anyio.to_thread.run_sync(read_fixture, root)
        return self._read.setdefault(root, found)


def read_fixture(root: Path) -> Fixture:
    """Read the fixture in *root*; the contents too where they are small.

    Raises:
        SetupFailed: it is no directory, cannot be read, or holds a link that leads outside, a FIFO, socket or device.
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
        found = sorted(listing, key=lambda entry: entry.name)
    for item in found:
        path = f"{under}/{item.name}" if under else item.name
        status = item.stat(follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if item.is_symlink():
            yield Entry(path=path, kind="link", mode=mode, target=_checked_target(root, real, path))
        elif item.is_dir(follow_symlinks=False):
            if item.name not in SKIPPED_DIRECTORIES:
                yield Entry(path=path, kind="directory", mode=mode)
                yield from _walk_entries(root, real, path)
        elif stat.S_ISREG(status.st_mode):
            yield Entry(path=path, kind="file", mode=mode)
        else:
            raise SetupFailed(str(root), f"{path} is no file, directory or link and cannot be copied")


def _checked_target(root: Path, real: Path, path: str) -> str:
    target = os.readlink(root / path)  # noqa: PTH115 - the text as it is, not a normalised path
    leads = Path(os.path.realpath((root / path).parent / target))
    if os.path.isabs(target) or not leads.is_relative_to(real):  # noqa: PTH117 - the text
        raise SetupFailed(str(root), f"{path} is a link that leads outside")
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
    """A private copy of *fixture* below *parent*, removed at the end unless *keep*.

    With *git* it is a repository with one commit; *environment* (PATH) and *marker* are for the git processes. With
    *lazy* it is made by `Workspace.copy_fixture`, if at all: where that takes neither a thread nor git, and nobody
    wants to keep it. Two lazy ones at the same time have different names.

    Raises:
        SetupFailed: it cannot be copied, or git fails.
    """
    wait = lazy and fixture.small and not git and not keep
    made = Workspace(fixture=fixture, path=_make_private_directory(parent, name) if wait else _free_place(parent, name))
    try:
        if not fixture.small:
            await anyio.to_thread.run_sync(made.copy_fixture)
        elif not wait:
            made.copy_fixture()
        if git:
            await _commit_fixture(made, environment or {}, marker)
        yield made
    finally:
        if made.made:
            made.kept = keep
            if not keep and not _remove_workspace(made, at_most=MAX_SMALL_ENTRIES):
                with anyio.CancelScope(shield=True):
                    made.kept = not await anyio.to_thread.run_sync(_remove_workspace, made)


async def _commit_fixture(made: Workspace, environment: Mapping[str, str], marker: str) -> None:
    from orchestrator.workspaces.git import CommitFailed, commit_all

    try:
        await commit_all(made.path, home=made.home, environment=environment, marker=marker)
    except CommitFailed as error:
        raise SetupFailed(str(made.fixture.root), str(error)) from error


def _remove_workspace(made: Workspace, at_most: int | None = None) -> bool:
    return remove_tree(made.path, at_most=at_most) and remove_tree(made.home_path, at_most=at_most)


def _make_private_directory(parent: Path, name: str) -> Path:
    return parent / (_UNSAFE_CHARACTER.sub("-", name)[:100].lstrip(".") or "run")


def _free_place(parent: Path, name: str) -> Path:
    path = wanted = _make_private_directory(parent, name)
    for number in count(2):
        if not os.path.lexists(path):
            break
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path


def _make_directory(path: Path) -> None:
    """Make *path*, whatever an earlier run has made of the place: all of a process's runs are neighbours there.

    A directory in the way may be somebody's workspace and stays; anything else was put there by a command.
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
            # Not left to the umask; and writable, since a suite may be installed where nothing is.
            os.fchmod(handle, entry.mode | stat.S_IRUSR | stat.S_IWUSR)
        finally:
            os.close(handle)


def _describe_os_error(error: OSError) -> str:
    what = error.strerror or type(error).__name__
    return f"{what}: {error.filename}" if error.filename else what
