"""The reader of a lab: `lab.yaml`, the daemon configuration and the fixtures.

docs/decision-labs.md describes the format. One error reports every finding of all files, each with file and line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from orchestrator.lab.catalog import CONFIG_FILE, LAB_FILE, LabPlace
from orchestrator.lab.formats.daemon_yaml import CheckedDaemon, add_default_backend, check_daemon
from orchestrator.lab.formats.fixture_yaml import check_fixtures
from orchestrator.lab.formats.flow_rules import describe_unknown_backend
from orchestrator.lab.model import REPLAY, Lab, Target
from orchestrator.yaml_values import (
    MAX_COUNT,
    check_id,
    check_not_empty,
    check_range,
    format_problems,
    get_typed,
    iterate_entries,
    list_known,
    make_refusal,
    new_yaml_converter,
    structure_yaml,
)
from providers.prices.price import Price
from providers.system.paths import PathEscapes, resolve_inside
from store.documents.positions import DocumentPath
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.documents.yaml import YamlDocument, read_yaml
from store.errors import UsageError
from store.events import Json
from store.money import to_nusd
from store.rows import Caps

if TYPE_CHECKING:
    from cattrs import Converter

MAX_REPEAT = 1000


@attrs.frozen(kw_only=True)
class TargetFile:
    """An entry of `targets`, whose key is its id."""

    backend: str
    model: str
    local: bool = False


@attrs.frozen(kw_only=True)
class BudgetFile:
    """The entry `budget`; rules check the amounts."""

    max_calls: int | None = None
    max_cost_usd: Json = None


@attrs.frozen(kw_only=True)
class PriceFile:
    """An entry of `prices`, whose key is a model; USD per million tokens."""

    input_per_mtok: Json
    output_per_mtok: Json
    cached_per_mtok: Json = None


@attrs.frozen(kw_only=True)
class LabFile:
    """The document `lab.yaml`."""

    schema: Literal["evalctl.lab/1"] = "evalctl.lab/1"
    id: str = "lab"
    version: Json = "1"
    targets: Mapping[str, TargetFile] = attrs.field(factory=dict)
    budget: BudgetFile | None = None
    repeat: int = 1
    prices: Mapping[str, PriceFile] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class CheckedLab:
    """A lab with its findings."""

    lab: Lab | None
    """None if there are findings."""
    findings: tuple[str, ...]
    """One text each, with file and line; some have an excerpt on further lines."""


def read_lab(place: LabPlace, *, path: str | None = None) -> Lab:
    """Read and check a lab with its configuration and fixtures.

    Args:
        place: the directory and configuration of the lab.
        path: the `PATH` to find specialists' programs in; None skips the check of programs.

    Raises:
        UsageError: with every finding of every file.
    """
    checked = check_lab(place, path=path)
    if checked.lab is None:
        raise make_refusal(checked.findings)
    return checked.lab


def check_lab(place: LabPlace, *, path: str | None = None) -> CheckedLab:
    """Check a lab; return it with its findings. See `read_lab`."""
    outside = [
        problem for name in (LAB_FILE, CONFIG_FILE) if (problem := _explain_outside_link(place, name)) is not None
    ]
    if outside:
        return CheckedLab(lab=None, findings=tuple(outside))
    daemon = check_daemon(place.config, path=path)
    document, structured, findings = _read_lab_file(place.root / LAB_FILE, daemon)
    cases = check_fixtures(place.root, daemon.capabilities)
    findings = (*daemon.findings, *findings, *cases.findings)
    if structured is None or document is None or daemon.daemon is None or findings:
        return CheckedLab(lab=None, findings=findings)
    configuration = daemon.daemon
    for target in structured.targets.values():
        configuration = add_default_backend(configuration, target.backend)
    lab = Lab(
        id=structured.id,
        version=str(structured.version),
        root=place.root.resolve(),
        config=place.config.resolve(),
        bundled=place.bundled,
        daemon=configuration,
        targets={
            name: Target(id=name, backend=entry.backend, model=entry.model, local=entry.local)
            for name, entry in structured.targets.items()
        },
        budget=_read_caps(structured.budget) if structured.budget is not None else None,
        repeat=structured.repeat,
        prices={model: _read_price(entry) for model, entry in structured.prices.items()},
        cases=cases.cases,
        content={
            LAB_FILE: hashlib.sha256(document.raw).hexdigest(),
            CONFIG_FILE: daemon.content,
            **cases.content,
        },
    )
    return CheckedLab(lab=lab, findings=())


def _explain_outside_link(place: LabPlace, name: str) -> str | None:
    """Return the finding about a file of the lab that is a link out of the lab; None if it is not.

    `--config` may name a file anywhere.
    """
    if name == CONFIG_FILE and place.config != place.root / CONFIG_FILE:
        return None
    try:
        resolve_inside(place.root, name)
    except PathEscapes as error:
        return f"{place.root / name}: {error.problem}"
    return None


def _read_lab_file(file: Path, daemon: CheckedDaemon) -> tuple[YamlDocument | None, LabFile | None, tuple[str, ...]]:
    try:
        document = read_yaml(file, decimals=True)
    except UsageError as error:
        return None, None, tuple(str(error).splitlines())
    structured, mismatches = structure_yaml(document, LabFile, _make_converter())
    rules = [document.locate_problem(at, message) for at, message in _find_problems(document.value, daemon)]
    return document, structured, tuple(format_problems(document, [*mismatches, *rules]))


def _find_problems(lab: Json, daemon: CheckedDaemon) -> Iterator[PathMessage]:
    name = get_typed(lab, "id", str)
    if name is not None:
        yield from check_id(name, ("id",))
    version = lab.get("version", "1") if isinstance(lab, dict) else "1"
    if isinstance(version, bool) or not isinstance(version, str | int | Decimal) or not str(version).strip():
        yield ("version",), f'expected a version such as "1", got {describe_value(version)}'
    yield from check_range(lab, "repeat", (), 1, MAX_REPEAT)
    for target, entry in iterate_entries(lab, "targets"):
        yield from _check_target(target, entry, daemon)
    yield from _find_price_conflicts(lab)
    budget = get_typed(lab, "budget", dict)
    if budget is not None:
        if all(cap is None for cap in budget.values()):
            yield ("budget",), "expected max_calls, max_cost_usd or both"
        yield from check_range(budget, "max_calls", ("budget",), 1, MAX_COUNT)
        yield from _check_amount(budget, "max_cost_usd", ("budget",))
    models = {model for _, entry in iterate_entries(lab, "targets") if (model := get_typed(entry, "model", str))}
    for model, price in iterate_entries(lab, "prices"):
        at = ("prices", model)
        if model not in models:
            hint = suggest_nearest(model, models)
            yield at, f"no target has the model {describe_value(model)}{hint}; models of targets: {list_known(models)}"
        for tier in ("input_per_mtok", "output_per_mtok", "cached_per_mtok"):
            yield from _check_amount(price, tier, at)


def _check_target(name: str, entry: Json, daemon: CheckedDaemon) -> Iterator[PathMessage]:
    at = ("targets", name)
    yield from check_id(name, at)
    if name == REPLAY:
        yield at, f"a target cannot have the name {describe_value(REPLAY)}, which stands for fixtures' own answers"
    yield from check_not_empty(entry, "model", at)
    backend = get_typed(entry, "backend", str)
    if backend is not None and daemon.backends is not None and backend not in daemon.backends:
        yield (*at, "backend"), describe_unknown_backend(backend, daemon.backends)


def _find_price_conflicts(lab: Json) -> Iterator[PathMessage]:
    """Find targets with the same backend and model of which one is local and one is not."""
    first: dict[tuple[str, str], tuple[str, bool]] = {}
    for target, entry in iterate_entries(lab, "targets"):
        backend, model = get_typed(entry, "backend", str), get_typed(entry, "model", str)
        if backend is None or model is None:
            continue
        local = get_typed(entry, "local", bool) or False
        other, free = first.setdefault((backend, model), (target, local))
        if local is not free:
            message = (
                f"targets {describe_value(other)} and {describe_value(target)} have the same backend and model: "
                f"both have to be local, or neither"
            )
            yield ("targets", target, "local"), message


def _check_amount(of: Json, key: str, at: DocumentPath) -> Iterator[PathMessage]:
    if not isinstance(of, dict) or key not in of:
        return
    try:
        to_nusd(of[key])
    except ValueError as error:
        yield (*at, key), str(error)


def _read_caps(entry: BudgetFile) -> Caps:
    return Caps(calls=entry.max_calls, nusd=to_nusd(entry.max_cost_usd) if entry.max_cost_usd is not None else None)


def _read_price(entry: PriceFile) -> Price:
    cached = to_nusd(entry.cached_per_mtok) if entry.cached_per_mtok is not None else None
    return Price(input=to_nusd(entry.input_per_mtok), output=to_nusd(entry.output_per_mtok), cached=cached)


@lru_cache(maxsize=1)
def _make_converter() -> Converter:
    return new_yaml_converter()
