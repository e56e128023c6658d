"""The reader of `compare.json`: a suite's id and two or more variants of the configuration it is measured under.

docs/variants.md describes the format. The reader reports all problems of a file at once, each with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.measured import MEASURED
from orchestrator.suite.config import BUILT_IN_AGENT, CONNECTION, DEFINITIONS
from orchestrator.suite.formats.suite_rules import ID, ID_RULE
from orchestrator.suite.variant import Variant
from store.documents.positions import DocumentPath, read_json
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.events import Json

MIN_VARIANTS = 2
MAX_VARIANTS = 100
"""Limits of the number of variants. Each gets a report and a comparison with the first, so more would not be read."""
RESERVED_NAMES = frozenset({"comparison.json", "comparison.md"})
"""Names of the files beside the variants' directories."""
FIELDS = ("schemaVersion", "suite", "variants")
ALTERNATIVES: Mapping[str, str] = {
    "model": "to compare models, run the suite once for each with --model and compare the sweeps",
    DEFINITIONS: "define agents in the configuration and let each variant choose one with 'agents.active'",
}
"""Advice for keys that a variant must not override."""


def read_variants(file: Path, *, suite_id: str, agents: Mapping[str, str]) -> tuple[Variant, ...]:
    """Read and check *file* for the suite *suite_id*; *agents* are the agents that the configuration defines.

    Raises:
        UsageError: the file is invalid; lists every problem, one per line, in the order of the file.
    """
    document = read_json(file)
    problems = list(_find_problems(document.value, suite_id, agents))
    if problems:
        raise document.make_usage_error(document.locate_problem(path, message) for path, message in problems)
    return tuple(
        Variant(id=variant["id"], overrides=variant.get("overrides", {})) for variant in document.value["variants"]
    )


def _find_problems(document: Json, suite_id: str, agents: Mapping[str, str]) -> Iterator[PathMessage]:
    if not isinstance(document, dict):
        yield (), f"expected an object, got {describe_value(document)}"
        return
    yield from _find_unknown_keys(document, FIELDS, ())
    version = document.get("schemaVersion", 1)
    if type(version) is not int or version != 1:
        yield ("schemaVersion",), f"expected 1, got {describe_value(version)}"
    suite = document.get("suite")
    if "suite" not in document:
        yield (), "missing required field 'suite'"
    elif suite != suite_id:
        yield ("suite",), f"the file is for another suite: expected {suite_id!r}, got {describe_value(suite)}"
    if "variants" not in document:
        yield (), "missing required field 'variants'"
        return
    yield from _check_variants(document["variants"], agents)


def _check_variants(variants: Json, agents: Mapping[str, str]) -> Iterator[PathMessage]:
    if not isinstance(variants, list):
        yield ("variants",), f"expected an array of variants, got {describe_value(variants)}"
        return
    if len(variants) < MIN_VARIANTS:
        yield ("variants",), f"expected at least two variants to compare, got {len(variants)}"
    if len(variants) > MAX_VARIANTS:
        yield (
            ("variants",),
            f"expected at most {MAX_VARIANTS} variants, got {len(variants):,}: compare them in several files",
        )
        return
    first: dict[str, int] = {}
    for index, variant in enumerate(variants):
        at: DocumentPath = ("variants", index)
        if not isinstance(variant, dict):
            yield at, f"expected an object, got {describe_value(variant)}"
            continue
        yield from _find_unknown_keys(variant, ("id", "overrides"), at)
        yield from _check_id(variant, first, index)
        overrides = variant.get("overrides", {})
        if isinstance(overrides, dict):
            for key, value in overrides.items():
                if problem := _find_override_fault(key, value, agents):
                    yield (*at, "overrides", key), problem
        else:
            yield (*at, "overrides"), f"expected an object, got {describe_value(overrides)}"


def _check_id(variant: Mapping[str, Json], first: dict[str, int], index: int) -> Iterator[PathMessage]:
    """Check a variant's id. It names a directory, so ids that differ only in case could collide on the disk."""
    at: DocumentPath = ("variants", index)
    if "id" not in variant:
        yield at, "missing required field 'id'"
        return
    name = variant["id"]
    if not isinstance(name, str) or ID.fullmatch(name) is None:
        yield (*at, "id"), f"{ID_RULE}; got {describe_value(name)}"
    elif name.lower() in RESERVED_NAMES:
        yield (*at, "id"), f"{name!r} is the name of a file of the comparison"
    elif name.lower() in first:
        yield (*at, "id"), f"another variant is called {name!r}: variants[{first[name.lower()]}]"
    else:
        first[name.lower()] = index


def _find_override_fault(key: str, value: Json, agents: Mapping[str, str]) -> str | None:
    """Return why a variant may not set *key* to *value*, or None."""
    if key in MEASURED:
        problem = MEASURED[key].check(value)
        if problem is None and key == "agents.active" and value != BUILT_IN_AGENT and value not in agents:
            known = sorted({BUILT_IN_AGENT, *agents})
            return f"no agent called {value!r}{suggest_nearest(value, known)}; defined: {', '.join(known)}"
        return problem
    if key in ALTERNATIVES:
        return f"a variant cannot set it: {ALTERNATIVES[key]}"
    if key in CONNECTION:
        return "a variant cannot set it: it is not part of the configuration hash and applies to the whole sweep"
    group = [name for name in MEASURED if name.startswith(f"{key}.")]
    if group:
        return f"write overrides with dotted names, such as {group[0]!r}"
    hint = suggest_nearest(key, MEASURED)
    return f"unknown key{hint}" + ("" if hint else f"; a variant may set {', '.join(MEASURED)}")


def _find_unknown_keys(document: Mapping[str, Json], known: tuple[str, ...], at: DocumentPath) -> Iterator[PathMessage]:
    for key in document:
        if key not in known:
            yield (*at, key), f"unknown field {key!r}{suggest_nearest(key, known)}"
