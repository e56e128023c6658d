"""Catalog of suites: the bundled ones, and those in a directory that the user names."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.installation import BUNDLED
from orchestrator.text import one_line
from store.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.suite.model import Suite

FILE = "suite.json"
SCRIPTS = "scripts"


@attrs.frozen(kw_only=True)
class SuiteOutline:
    """The facts of a suite that `list` shows."""

    suite_id: str
    suite_version: str
    description: str
    tasks: Mapping[str, tuple[str, ...]]
    """Tags by task id."""


@attrs.frozen(kw_only=True)
class SuitePlace:
    """A directory that holds a suite, known without checking the suite."""

    directory: Path
    bundled: bool
    suite_id: str | None
    """The id in the suite's file; None if it cannot be read."""
    outline: SuiteOutline | None = attrs.field(default=None, eq=False, repr=False)
    """Outline of a bundled suite. It is unchecked, because tests keep bundled suites valid."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which a user may call the suite."""
        name = self.directory.resolve().name
        return (name,) if self.suite_id in (None, name) else (str(self.suite_id), name)


@attrs.frozen(kw_only=True)
class ListedSuite:
    """A suite of the catalog, valid or broken."""

    place: SuitePlace
    outline: SuiteOutline | None
    """None if the suite is broken."""
    suite: Suite | None = None
    """None if the suite is broken or was not checked."""
    errors: tuple[str, ...] = ()
    """One line for each problem of a broken suite."""
    scripted: frozenset[str] = frozenset()
    """Ids of the tasks that the scripted provider can play: names of the files in the `scripts` directory."""


def find_suite(name: str, suite_dir: Path | None) -> Suite:
    """Read the suite with the id *name*, or else the suite in a directory of that name; bundled or in *suite_dir*.

    Raises:
        UsageError: there is no such suite (names the nearest ones), there are several, or the suite is invalid.
    """
    from orchestrator.suite.formats.suite_json import read_suite  # noqa: PLC0415 - start-up: loads cattrs

    place = find_place(name, suite_dir)
    return read_suite(place.directory, bundled=place.bundled)


def find_planned_suite(suite_id: str, root: Path, *, bundled: bool) -> Suite:
    """Read the suite of a stored sweep from its former directory; a bundled suite also from the present installation.

    Raises:
        UsageError: the suite is missing or invalid.
    """
    from orchestrator.suite.formats.suite_json import read_suite  # noqa: PLC0415 - start-up: loads cattrs

    if root.is_dir():
        return read_suite(root, bundled=bundled)
    if bundled:
        return find_suite(suite_id, None)
    raise UsageError(f"the suite {suite_id!r} is missing: there is no directory {root}", "Restore it, then try again.")


def find_place(name: str, suite_dir: Path | None) -> SuitePlace:
    """Find the directory of the suite *name* without checking the suite. A *suite_dir* that is itself that suite wins.

    Raises:
        UsageError: there is no such suite (names the nearest ones), or there are several.
    """
    places = find_places(suite_dir)
    matches = [place for place in places if place.directory == suite_dir and name in place.names]
    matches = matches or [place for place in places if place.suite_id == name]
    matches = matches or [place for place in places if place.directory.resolve().name == name]
    if not matches:
        raise _make_unknown_error(name, places)
    if len(matches) > 1:
        where = "\n".join(f"  {place.directory}" for place in matches)
        given = shlex.quote(str(matches[-1].directory))  # bundled suites come first, and their names are unique
        raise UsageError(
            f"{len(matches)} suites are called {name!r}:\n{where}",
            f"Name one of them, such as {shlex.quote(name)} --suite-dir {given}, or give one of them another suiteId.",
        )
    return matches[0]


def list_suites(suite_dir: Path | None) -> tuple[ListedSuite, ...]:
    """List all suites, bundled ones first; a broken suite is listed with its problems.

    Bundled suites are not checked.

    Raises:
        UsageError: *suite_dir* is not a directory, or holds no suite.
    """
    return tuple(
        read_place(place)
        if place.outline is None
        else ListedSuite(place=place, outline=place.outline, scripted=_list_scripted_tasks(place))
        for place in find_places(suite_dir)
    )


def read_place(place: SuitePlace) -> ListedSuite:
    """Read one suite; problems become part of the result."""
    from orchestrator.suite.formats.suite_json import read_suite  # noqa: PLC0415 - start-up: loads cattrs

    scripted = _list_scripted_tasks(place)
    try:
        suite = read_suite(place.directory, bundled=place.bundled)
    except UsageError as error:
        return ListedSuite(place=place, outline=None, errors=tuple(str(error).splitlines()), scripted=scripted)
    outline = SuiteOutline(
        suite_id=suite.suite_id,
        suite_version=suite.suite_version,
        description=suite.description,
        tasks={task.id: task.tags for task in suite.tasks},
    )
    return ListedSuite(place=place, outline=outline, suite=suite, scripted=scripted)


def check_place(place: SuitePlace) -> tuple[ListedSuite, tuple[str, ...]]:
    """Read one suite and its scripts; return the suite and every problem, one line each."""
    from providers.scripted.script import read_scripts  # noqa: PLC0415 - start-up: only `check` reads scripts

    listed = read_place(place)
    try:
        read_scripts(place.directory)
    except UsageError as error:
        return listed, (*listed.errors, *str(error).splitlines())
    return listed, listed.errors


def find_script_warnings(listed: ListedSuite) -> list[str]:
    """Return a warning for each script that no task plays; often its task was renamed."""
    if listed.outline is None:
        return []
    from store.documents.structure import suggest_nearest  # noqa: PLC0415 - start-up: loads cattrs

    tasks = [*listed.outline.tasks]
    return [
        f"{listed.place.directory / SCRIPTS / name}.json: no task is called {name!r}{suggest_nearest(name, tasks)}"
        for name in sorted(listed.scripted.difference(tasks))
    ]


def find_repository_warnings(listed: ListedSuite) -> list[str]:
    """Return a warning for each `.git` in a fixture that runs do not get."""
    if listed.suite is None:
        return []
    from orchestrator.workspaces.repositories import find_left_out  # noqa: PLC0415 - start-up: only `check` needs it

    root = listed.suite.root
    return [
        f"{root / task_fixture / one_line(path)}: left out of workspaces: {reason}"
        for task_fixture, git in dict.fromkeys((task.fixture, task.fixture_git) for task in listed.suite.tasks)
        for path, reason in find_left_out(root / task_fixture, git=git)
    ]


def find_duplicate_ids(places: Iterable[SuitePlace]) -> list[str]:
    """Return one line for every id that several suites share."""
    having: dict[str, list[str]] = {}
    for place in dict.fromkeys(places):
        if place.suite_id is not None:
            having.setdefault(place.suite_id, []).append(str(place.directory))
    return [
        f"{len(where)} suites have the suiteId {suite_id!r}: {', '.join(where)}"
        for suite_id, where in having.items()
        if len(where) > 1
    ]


def find_places(suite_dir: Path | None) -> tuple[SuitePlace, ...]:
    """Find every directory with a `suite.json`, sorted by name, bundled ones first.

    Raises:
        UsageError: *suite_dir* is not a directory, or holds no suite.
    """
    places = [_glance_at_suite(directory, bundled=True) for directory in _list_suite_directories(BUNDLED)]
    if suite_dir is None:
        return tuple(places)
    if not suite_dir.is_dir():
        raise UsageError(f"--suite-dir {suite_dir}: {'not a directory' if suite_dir.exists() else 'no such directory'}")
    given = [suite_dir] if (suite_dir / FILE).is_file() else _list_suite_directories(suite_dir)
    if not given:
        raise UsageError(
            f"--suite-dir {suite_dir}: no suite here",
            f"Expected a {FILE} in it, or in directories directly below it.",
        )
    known = {place.directory.resolve() for place in places}
    places += [_glance_at_suite(directory, bundled=False) for directory in given if directory.resolve() not in known]
    return tuple(places)


def _list_suite_directories(directory: Path) -> list[Path]:
    try:
        return sorted(entry for entry in directory.iterdir() if (entry / FILE).is_file())
    except OSError:
        return []


def _glance_at_suite(directory: Path, *, bundled: bool) -> SuitePlace:
    """Read a suite's id without checking the suite: a broken suite must not hide the others."""
    suite_id = outline = None
    try:
        document = json.loads((directory / FILE).read_bytes())
        suite_id = document.get("suiteId") if isinstance(document, dict) else None
        outline = _read_outline(document) if bundled else None
    except (OSError, ValueError, RecursionError):
        pass  # `read_suite` reports the problem when the user names the suite by its directory
    suite_id = suite_id if isinstance(suite_id, str) else None
    return SuitePlace(directory=directory, bundled=bundled, suite_id=suite_id, outline=outline)


def _read_outline(document: Any) -> SuiteOutline | None:
    """Read the outline from a bundled suite's document; None if a field is missing."""
    try:
        return SuiteOutline(
            suite_id=document["suiteId"],
            suite_version=document["suiteVersion"],
            description=document.get("description", ""),
            tasks={task["id"]: tuple(task.get("tags", ())) for task in document["tasks"]},
        )
    except (KeyError, TypeError, AttributeError):
        return None


def _list_scripted_tasks(place: SuitePlace) -> frozenset[str]:
    return frozenset(file.stem for file in (place.directory / SCRIPTS).glob("*.json"))


def _make_unknown_error(name: str, places: Sequence[SuitePlace]) -> UsageError:
    names = sorted({known for place in places for known in place.names})
    near = get_close_matches(name, names, 3, cutoff=0.5)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    if (Path(name) / FILE).is_file():
        command = f"{shlex.quote(Path(name).resolve().name)} --suite-dir {shlex.quote(name)}"
        return UsageError(
            f"unknown suite {name!r}", f"This is a directory. Name the suite and its directory: {command}"
        )
    return UsageError(f"unknown suite {name!r}", f"{meant}Suites: {', '.join(names) or 'none'}. See evalctl list.")
