"""The reader of agent suites: a directory with a `suite.json` and fixture directories.

docs/writing-a-suite.md describes the format. The reader reports all problems of a suite at once, each with its place,
its task and its field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import attrs

from orchestrator.suite.formats.fixture_files import FixtureFiles, inspect_fixture
from orchestrator.suite.formats.suite_rules import find_suite_problems
from orchestrator.suite.model import Suite, Task
from providers.system.paths import PathEscapes, check_relative, resolve_inside
from store.documents.positions import Document, DocumentProblem, read_json
from store.documents.structure import (
    Mismatch,
    PathMessage,
    describe_value,
    make_converter,
    make_tagged_union_hook,
    structure_document,
    suggest_nearest,
)
from store.errors import UsageError
from store.events import Json
from verifiers.base import Verifier
from verifiers.registry import KINDS, find_verifier, list_verifier_kinds

if TYPE_CHECKING:
    from cattrs import Converter

FILE = "suite.json"


@attrs.frozen(kw_only=True)
class SuiteFile:
    """The document `suite.json`, before its fixtures are read."""

    schema_version: Literal[1]
    suite_id: str
    suite_version: str
    description: str = ""
    tasks: tuple[Task, ...]


def read_suite(directory: Path, *, bundled: bool) -> Suite:
    """Read and check the suite in *directory*.

    Raises:
        UsageError: the suite is invalid; lists every problem, one per line, in the order of the file.
    """
    document = read_json(directory / FILE)
    read, mismatches = structure_document(document, SuiteFile, _make_converter())
    values = [document.locate_problem(path, message) for path, message in find_suite_problems(document.value)]
    # a value that breaks a rule has the right type: the rule's message replaces that of a class's validator
    reported = {problem.path for problem in values}
    problems = [*values, *(problem for problem in mismatches if problem.path not in reported)]
    content, fixture_problems = _hash_fixtures(directory, document.value)
    problems += [document.locate_problem(path, message) for path, message in fixture_problems]
    if read is None or problems:
        raise document.make_usage_error(_name_task(document, problem) for problem in problems)
    return Suite(
        suite_id=read.suite_id,
        suite_version=read.suite_version,
        description=read.description,
        tasks=read.tasks,
        root=directory.resolve(),
        bundled=bundled,
        content={FILE: hashlib.sha256(document.raw).hexdigest(), **content},
    )


def _name_task(document: Document, problem: DocumentProblem) -> DocumentProblem:
    """Add the task's id, which its author knows better than its index."""
    if not problem.path.startswith("tasks["):
        return problem
    index = problem.path.removeprefix("tasks[").partition("]")[0]
    task = document.value["tasks"][int(index)]
    name = task.get("id") if isinstance(task, dict) else None
    if not isinstance(name, str) or problem.path == f"tasks[{index}].id":
        return problem
    return attrs.evolve(problem, message=f"{problem.message} (task {describe_value(name)})")


@lru_cache(maxsize=1)
def _make_converter() -> Converter:
    converter = make_converter()

    def find_verifier_class(kind: str) -> type:
        try:
            verifier = find_verifier(kind)
        except UsageError as error:
            problem = error.problem  # the kind may exist and fail to load
            if problem.startswith("unknown"):
                known = list_verifier_kinds()
                problem = (
                    f"unknown kind {describe_value(kind)}{suggest_nearest(kind, known)}; expected one of "
                    f"{', '.join(known)}"
                )
            raise Mismatch(problem, ("kind",)) from error
        if not attrs.has(verifier):
            raise Mismatch(
                f"kind {describe_value(kind)} cannot be read from a file: its class is not an attrs class", ("kind",)
            )
        return verifier

    def structure_verifier(value: Json, into: Any) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind == "command" and isinstance(value.get("expectStdoutIncludes"), str):
            value = {**value, "expectStdoutIncludes": [value["expectStdoutIncludes"]]}  # a single text needs no array
        # entry points of other packages are looked up only when a suite names such a kind
        names = [*KINDS, kind] if isinstance(kind, str) and kind not in KINDS else [*KINDS]
        return make_tagged_union_hook(converter, "kind", names, find_verifier_class)(value, into)

    converter.register_structure_hook_func(lambda into: into is Verifier, structure_verifier)
    return converter


def _hash_fixtures(directory: Path, suite: Json) -> tuple[dict[str, str], list[PathMessage]]:
    """Return the hashes of all fixtures' files by path relative to the suite, and the fixtures' problems."""
    seen: dict[str, FixtureFiles] = {}
    content: dict[str, str] = {}
    problems: list[PathMessage] = []
    for index, fixture in _list_named_fixtures(suite):
        at = ("tasks", index, "fixture")
        if fixture in seen:
            files = seen[fixture]
        else:
            problem, path = _check_fixture_directory(directory, fixture)
            files = FixtureFiles(content={}, problems=(problem,)) if problem else inspect_fixture(path)
            seen[fixture] = files
            prefix = PurePosixPath(fixture).as_posix()  # `./a//b/` is the same place as `a/b`
            content.update((f"{prefix}/{name}", digest) for name, digest in files.content.items())
        problems += [(at, problem) for problem in files.problems]
    return content, problems


def _list_named_fixtures(suite: Json) -> Iterator[tuple[int, str]]:
    """Yield the index of each task with a valid relative fixture path, and that path."""
    tasks = suite.get("tasks") if isinstance(suite, dict) else None
    for index, task in enumerate(tasks if isinstance(tasks, list) else []):
        fixture = task.get("fixture") if isinstance(task, dict) else None
        if isinstance(fixture, str) and check_relative(fixture) is None:
            yield index, fixture


def _check_fixture_directory(directory: Path, fixture: str) -> tuple[str | None, Path]:
    """Return why a path cannot be a fixture's directory (or None), and the resolved path."""
    try:
        path = resolve_inside(directory, fixture)
        if path == directory.resolve():
            return "a fixture must be a directory below the suite's directory, not that directory itself", path
        if not path.exists():
            return f"no such directory: {describe_value(fixture)}", path
        return (None if path.is_dir() else f"not a directory: {describe_value(fixture)}"), path
    except (PathEscapes, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return reason, directory
