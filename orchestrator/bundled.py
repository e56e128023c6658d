"""Finding suites: the bundled ones, and those of a directory that the user names."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from orchestrator.layouts.suite_json import FILE, read_suite
from orchestrator.suite import Suite
from providers.script import FOLDER, read_scripts
from store.errors import UsageError

BUNDLED = Path(__file__).resolve().parent.parent / "suites"
"""Beside the package, in a checkout as in an installation."""


@attrs.frozen(kw_only=True)
class Place:
    """A directory that holds a suite, as far as a glance tells."""

    directory: Path
    bundled: bool
    suite_id: str | None
    """What its file calls it; None where that cannot be read."""

    @property
    def names(self) -> tuple[str, ...]:
        """What a user may call it."""
        name = self.directory.resolve().name
        return (name,) if self.suite_id in (None, name) else (str(self.suite_id), name)


@attrs.frozen(kw_only=True)
class Listed:
    """A suite, read or broken."""

    place: Place
    suite: Suite | None
    errors: tuple[str, ...] = ()
    """One line per finding, where it is broken."""
    scripted: frozenset[str] = frozenset()
    """Names of the files in its `scripts` directory: tasks that the scripted provider can play."""


def find_suite(name: str, suite_dir: Path | None) -> Suite:
    """The suite with this id, else the one whose directory is called so; bundled, or in *suite_dir*.

    Raises:
        UsageError: no such suite (with the nearest names), several of them, or one with findings.
    """
    place = find_place(name, suite_dir)
    return read_suite(place.directory, bundled=place.bundled)


def find_again(suite_id: str, root: Path, *, bundled: bool) -> Suite:
    """The suite a sweep was planned with: where it was then; a bundled one also where the installation is now.

    Raises:
        UsageError: it is gone, or has findings.
    """
    if root.is_dir():
        return read_suite(root, bundled=bundled)
    if bundled:
        return find_suite(suite_id, None)
    raise UsageError(f"the suite {suite_id!r} is gone: there is no directory {root}", "Put it back to go on.")


def find_place(name: str, suite_dir: Path | None) -> Place:
    """Where the suite called *name* is, without reading it.

    Raises:
        UsageError: no such suite (with the nearest names), or several.
    """
    places = find_places(suite_dir)
    found = [place for place in places if place.suite_id == name]
    found = found or [place for place in places if place.directory.resolve().name == name]
    if not found:
        raise _unknown(name, places)
    if len(found) > 1:
        where = "\n".join(f"  {place.directory}" for place in found)
        raise UsageError(
            f"{len(found)} suites are called {name!r}:\n{where}",
            "Give one of them another suiteId, or name the suite by its directory.",
        )
    return found[0]


def list_suites(suite_dir: Path | None) -> tuple[Listed, ...]:
    """All suites, bundled ones first; a broken one is listed with what is wrong with it.

    Raises:
        UsageError: *suite_dir* is no directory, or holds no suite.
    """
    return tuple(read_place(place) for place in find_places(suite_dir))


def read_place(place: Place) -> Listed:
    """Read one suite; findings become part of the value."""
    scripted = frozenset(file.stem for file in (place.directory / FOLDER).glob("*.json"))
    try:
        suite = read_suite(place.directory, bundled=place.bundled)
    except UsageError as error:
        return Listed(place=place, suite=None, errors=tuple(str(error).splitlines()), scripted=scripted)
    return Listed(place=place, suite=suite, scripted=scripted)


def check_place(place: Place) -> tuple[Listed, tuple[str, ...]]:
    """Read one suite and its scripts: what it is, and every finding."""
    listed = read_place(place)
    try:
        read_scripts(place.directory)
    except UsageError as error:
        return listed, (*listed.errors, *str(error).splitlines())
    return listed, listed.errors


def script_warnings(listed: Listed) -> list[str]:
    """Scripts that no task would play: mostly a task that was renamed."""
    if listed.suite is None:
        return []
    from store.structure import suggest

    tasks = [task.id for task in listed.suite.tasks]
    return [
        f"{listed.place.directory / FOLDER / name}.json: no task is called {name!r}{suggest(name, tasks)}"
        for name in sorted(listed.scripted.difference(tasks))
    ]


def duplicate_ids(places: Iterable[Place]) -> list[str]:
    """One line for every id that several suites have."""
    having: dict[str, list[str]] = {}
    for place in dict.fromkeys(places):
        if place.suite_id is not None:
            having.setdefault(place.suite_id, []).append(str(place.directory))
    return [
        f"{len(where)} suites have the suiteId {suite_id!r}: {', '.join(where)}"
        for suite_id, where in having.items()
        if len(where) > 1
    ]


def find_places(suite_dir: Path | None) -> tuple[Place, ...]:
    """Where suites are: every directory with a `suite.json`, sorted by name, bundled ones first.

    Raises:
        UsageError: *suite_dir* is no directory, or holds no suite.
    """
    places = [_glance(directory, bundled=True) for directory in _below(BUNDLED)]
    if suite_dir is None:
        return tuple(places)
    if not suite_dir.is_dir():
        raise UsageError(f"--suite-dir {suite_dir}: {'not a directory' if suite_dir.exists() else 'no such directory'}")
    given = [suite_dir] if (suite_dir / FILE).is_file() else _below(suite_dir)
    if not given:
        raise UsageError(
            f"--suite-dir {suite_dir}: no suite here",
            f"Expected a {FILE} in it, or in directories directly below it.",
        )
    known = {place.directory.resolve() for place in places}
    places += [_glance(directory, bundled=False) for directory in given if directory.resolve() not in known]
    return tuple(places)


def _below(directory: Path) -> list[Path]:
    try:
        return sorted(entry for entry in directory.iterdir() if (entry / FILE).is_file())
    except OSError:
        return []


def _glance(directory: Path, *, bundled: bool) -> Place:
    """Learn a suite's id without checking anything: a broken suite must not hide the others."""
    suite_id = None
    try:
        document = json.loads((directory / FILE).read_bytes())
        suite_id = document.get("suiteId") if isinstance(document, dict) else None
    except (OSError, ValueError, RecursionError):
        pass  # whoever asks for it by its directory's name is told what is wrong with it
    return Place(directory=directory, bundled=bundled, suite_id=suite_id if isinstance(suite_id, str) else None)


def _unknown(name: str, places: Sequence[Place]) -> UsageError:
    from difflib import get_close_matches

    names = sorted({known for place in places for known in place.names})
    near = get_close_matches(name, names, 3, cutoff=0.5)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    if (Path(name) / FILE).is_file():
        command = f"{shlex.quote(Path(name).resolve().name)} --suite-dir {shlex.quote(name)}"
        return UsageError(f"unknown suite {name!r}", f"That is a directory. Name the suite, and where it is: {command}")
    return UsageError(f"unknown suite {name!r}", f"{meant}Suites: {', '.join(names) or 'none'}. See evalctl list.")
