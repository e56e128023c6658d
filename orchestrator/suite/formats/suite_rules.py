"""Rules on the values of `suite.json` beyond their types: ids, ranges, relative paths, patterns. Pure; reads no files.

The rules read the plain document and not the structured values, so that a task with one wrong type still gets its other
problems reported. The rules skip values of a wrong type, which the converter reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from orchestrator.suite.formats.patterns import find_pattern_fault
from orchestrator.yaml_values import get_typed
from providers.system.paths import check_relative
from store.documents.positions import DocumentPath
from store.documents.structure import PathMessage, describe_value
from store.events import Json

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Syntax of the ids of suites, tasks and verifiers. Ids become file names, report keys and command-line words."""

ID_RULE = "expected letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 100 characters"

SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)

MAX_TIMEOUT_MS = 600_000
MAX_COUNT = 2**53 - 1
"""Largest integer on which all JSON readers agree."""


def find_suite_problems(suite: Json) -> Iterator[PathMessage]:
    """Yield every problem of a document, in its order."""
    if not isinstance(suite, dict):
        return
    yield from _check_id(suite, "suiteId", ())
    version = get_typed(suite, "suiteVersion", str)
    if version is not None and SEMVER.fullmatch(version) is None:
        yield ("suiteVersion",), f"expected a semantic version such as 1.0.0, got {describe_value(version)}"
    tasks = get_typed(suite, "tasks", list)
    if tasks is None:
        return
    if not tasks:
        yield ("tasks",), "expected at least one task"
    yield from _find_duplicates(tasks, ("tasks",), "task")
    for index, task in enumerate(tasks):
        if isinstance(task, dict):
            yield from _check_task(task, ("tasks", index))


def _check_task(task: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    yield from _check_id(task, "id", at)
    yield from _check_not_empty(task, "prompt", at)
    yield from _check_not_empty(task, "agent", at)
    yield from _check_path(task, "fixture", at)
    budget = get_typed(task, "budget", dict) or {}
    for key, minimum in (("maxTurns", 1), ("maxWallMs", 1), ("maxTokens", 1), ("maxToolCalls", 0)):
        yield from _check_range(budget, key, (*at, "budget"), minimum, MAX_COUNT)
    policy = get_typed(task, "policy", dict) or {}
    for index, effect in enumerate(get_typed(policy, "allow", list) or []):
        if effect == "read":
            yield (*at, "policy", "allow", index), "'read' is always granted; leave it out"
    for index, tag in enumerate(get_typed(task, "tags", list) or []):
        if tag == "":
            yield (*at, "tags", index), "expected some text, got ''"
    yield from _check_replay_rules(task, at)
    yield from _check_verifiers(task, at)


def _check_replay_rules(task: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    for index, rule in enumerate(get_typed(task, "replayNormalize", list) or []):
        pattern = get_typed(rule, "pattern", str) if isinstance(rule, dict) else None
        problem = find_pattern_fault(pattern) if pattern is not None else None
        if problem:
            yield (*at, "replayNormalize", index, "pattern"), problem


def _check_verifiers(task: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    verifiers = get_typed(task, "verifiers", list)
    if verifiers is None:
        return
    if not verifiers:
        yield (*at, "verifiers"), "expected at least one verifier"
    yield from _find_duplicates(verifiers, (*at, "verifiers"), "verifier")
    for index, verifier in enumerate(verifiers):
        if isinstance(verifier, dict):
            yield from _check_verifier(verifier, (*at, "verifiers", index))


def _check_verifier(verifier: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    yield from _check_id(verifier, "id", at)
    kind = get_typed(verifier, "kind", str)
    rules = VERIFIER_RULES.get(kind or "")
    if rules is not None:
        yield from rules(verifier, at)


def _check_command(verifier: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    command = get_typed(verifier, "command", list)
    if command == []:
        yield (*at, "command"), "expected a program and its arguments, got an empty array"
    for index, argument in enumerate(command or []):
        if isinstance(argument, str) and "\0" in argument:
            yield (*at, "command", index), "an argument cannot hold a NUL character"
        elif argument == "" and index == 0:
            yield (*at, "command", index), "expected a program, got ''"
    yield from _check_range(verifier, "timeoutMs", at, 1, MAX_TIMEOUT_MS)
    yield from _check_range(verifier, "expectExit", at, 0, 255)


def _check_file_verifier(verifier: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    yield from _check_path(verifier, "path", at)


def _check_file_equals(verifier: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    yield from _check_path(verifier, "path", at)
    sha256 = get_typed(verifier, "sha256", str)
    if sha256 is not None and re.fullmatch(r"[0-9a-f]{64}", sha256) is None:
        yield (*at, "sha256"), f"expected 64 hexadecimal digits in lower case, got {describe_value(sha256)}"


def _check_file_contains(verifier: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    yield from _check_path(verifier, "path", at)
    if get_typed(verifier, "text", str) == "":
        yield (*at, "text"), "every file contains ''; expected some text"


def _check_tree_diff(verifier: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    for index, allowed in enumerate(get_typed(verifier, "allowed", list) or []):
        if isinstance(allowed, str):
            problem = check_relative(allowed.removesuffix("/"))
            if problem:
                yield (*at, "allowed", index), f"{describe_value(allowed)} {problem}"


def _check_tool_sequence(verifier: Mapping[str, Json], at: DocumentPath) -> Iterator[PathMessage]:
    rule = get_typed(verifier, "rule", dict) or {}
    for key in ("first", "then", "tool"):
        yield from _check_not_empty(rule, key, (*at, "rule"))
    yield from _check_range(rule, "max", (*at, "rule"), 0, MAX_COUNT)


VERIFIER_RULES: Mapping[str, Callable[[Mapping[str, Json], DocumentPath], Iterator[PathMessage]]] = {
    "command": _check_command,
    "file-equals": _check_file_equals,
    "file-contains": _check_file_contains,
    "file-absent": _check_file_verifier,
    "tree-diff-within": _check_tree_diff,
    "tool-sequence": _check_tool_sequence,
}
"""Rules by built-in verifier kind. Verifier classes of other packages have their own validators."""


def _check_id(of: Mapping[str, Json], key: str, at: DocumentPath) -> Iterator[PathMessage]:
    value = get_typed(of, key, str)
    if value is not None and ID.fullmatch(value) is None:
        yield (*at, key), f"{ID_RULE}; got {describe_value(value)}"


def _check_not_empty(of: Mapping[str, Json], key: str, at: DocumentPath) -> Iterator[PathMessage]:
    value = get_typed(of, key, str)
    if value is not None and not value.strip():
        yield (*at, key), f"expected some text, got {describe_value(value)}"


def _check_path(of: Mapping[str, Json], key: str, at: DocumentPath) -> Iterator[PathMessage]:
    value = get_typed(of, key, str)
    problem = check_relative(value) if value is not None else None
    if problem:
        yield (*at, key), f"{describe_value(value)} {problem}"


def _check_range(
    of: Mapping[str, Json], key: str, at: DocumentPath, minimum: int, maximum: int
) -> Iterator[PathMessage]:
    value = get_typed(of, key, int)
    if value is not None and not minimum <= value <= maximum:
        wanted = f"at least {minimum}" if maximum == MAX_COUNT and value < minimum else f"{minimum} to {maximum}"
        yield (*at, key), f"expected {wanted}, got {describe_value(value)}"


def _find_duplicates(items: list[Json], at: DocumentPath, noun: str) -> Iterator[PathMessage]:
    """Yield ids that are equal, or equal on a file system that ignores case."""
    first: dict[str, tuple[int, str]] = {}
    for index, item in enumerate(items):
        name = get_typed(item, "id", str) if isinstance(item, dict) else None
        if name is None:
            continue
        other = first.setdefault(name.casefold(), (index, name))
        if other[0] != index:
            like = "" if other[1] == name else f" (it differs from {other[1]!r} only in case)"
            yield (*at, index, "id"), f"duplicate {noun} id {name!r}{like}; the first is {noun}s[{other[0]}]"
