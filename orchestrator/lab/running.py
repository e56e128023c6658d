"""The settings, providers and credentials of a lab's sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from orchestrator.credentials import resolve_key
from orchestrator.engine.kind import PricedProvider
from orchestrator.lab.cells import Cell
from orchestrator.lab.execute import RECORDED
from orchestrator.lab.model import Lab
from orchestrator.lab.settings import LabSettings
from providers.base import Provider
from providers.decisions.backends import KeyLookup
from providers.decisions.model import Capability, DaemonConfig, HttpNode, ModelNode, SpecialistNode
from providers.decisions.player import AnswerPlayer
from providers.prices.price import Price
from providers.prices.table import Prices
from store.events import Json
from store.rows import Caps

FREE_PRICE = Price(input=0, output=0)


def build_settings(lab: Lab, cells: Iterable[Cell], *, mode: str, caps: Caps, k: int = 1, **more: Json) -> LabSettings:
    """Build the settings of a sweep over *cells*; *more* are further fields of `LabSettings`."""
    planned = list(cells)
    models = {cell.aim.model for cell in planned if cell.aim is not None}
    return LabSettings(
        k=k,
        mode=mode,
        caps=caps,
        prices={model: price for model, price in lab.prices.items() if model in models},
        targets=tuple(dict.fromkeys(cell.target for cell in planned)),
        **more,
    )


def list_player(player: AnswerPlayer) -> dict[str, PricedProvider]:
    """Return the providers of an offline sweep: *player* answers for all of them."""
    return {RECORDED: PricedProvider(provider=player, prices={}, allow_unpriced=True)}


def open_priced_providers(
    cells: Iterable[Cell],
    prices: Prices,
    open_all: Callable[[Iterable[Capability]], Mapping[str, Provider]],
) -> dict[str, PricedProvider]:
    """Open the providers that the cells may call, with their known prices.

    Args:
        cells: of the sweep plan.
        prices: by model; calls to a local target are free even if its model has a price.
        open_all: opens the providers of capabilities, by the names of `Capability.find_provider_name`.
    """
    running = [cell for cell in cells if cell.skip is None]
    capabilities = [cell.capability for cell in running]
    local = {(cell.aim.backend, cell.aim.model) for cell in running if cell.aim is not None and cell.aim.local}
    tables: dict[str, Prices] = {}
    specialists: set[str] = set()
    for capability in capabilities:
        for node in capability.list_asking_nodes():
            name = capability.find_provider_name(node)
            if isinstance(node, SpecialistNode):
                tables[name] = {"": FREE_PRICE} if node.local else {}
                specialists.add(name)
            else:
                free = {model: FREE_PRICE for backend, model in local if backend == name}
                tables[name] = {**prices, **free}
    opened = open_all(capabilities) if tables else {}
    priced = {
        name: PricedProvider(
            provider=opened[name], prices=table, allow_unpriced=True, counts_tokens=name not in specialists
        )
        for name, table in tables.items()
    }
    return priced or {"nobody": PricedProvider(provider=AnswerPlayer({}, {}), prices={})}


def make_key_lookup(environment: Mapping[str, str]) -> KeyLookup:
    """Make the lookup of a daemon configuration's credentials in *environment*."""
    return lambda variable, kind: resolve_key(variable, kind, environment, named_by="api_key_env")


def list_credentials(
    daemon: DaemonConfig, capabilities: Iterable[Capability], environment: Mapping[str, str]
) -> list[tuple[str, str]]:
    """List the credentials that the backends and specialists of *capabilities* use, as pairs of variable and value.

    The redactor masks them in everything that is stored or printed.
    """
    values: dict[str, str] = {}
    find_key = make_key_lookup(environment)
    for capability in capabilities:
        for node in capability.list_asking_nodes():
            if isinstance(node, ModelNode):
                backend = daemon.backends[node.backend]
                variable, value = find_key(backend.api_key_env, backend.kind)
            elif isinstance(node, HttpNode):
                variable, value = find_key(node.api_key_env, node.kind)
            else:
                continue
            if variable is not None and value is not None:
                values[variable] = value
    return sorted(values.items())
