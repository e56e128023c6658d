"""The upper bound of a sweep's spending in words, printed before the first call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from orchestrator.lab.cells import Cell, count_max_calls
from orchestrator.lab.model import Lab, Target
from orchestrator.text import format_count
from providers.decisions.excerpts import render_line
from providers.decisions.model import Capability, ModelNode, SpecialistNode
from store.errors import UsageError
from store.money import format_nano_usd
from store.rows import Caps


def get_budget(lab: Lab) -> Caps:
    """Return the caps that `lab.yaml` sets.

    Raises:
        UsageError: it sets none, so the spending would be unbounded.
    """
    if lab.budget is None:
        raise UsageError(
            f"{lab.root / 'lab.yaml'}: it has no budget, and calls to backends cost money",
            "Add one, such as budget: { max_calls: 200, max_cost_usd: 1.0 }.",
        )
    return lab.budget


def count_runs(cells: Iterable[Cell], repeat: int) -> int:
    """Count the runs that are not skipped, which may call backends."""
    return sum(repeat for cell in cells if cell.skip is None)


def count_calls(cells: Iterable[Cell], repeat: int) -> int:
    """Count the calls that these runs make at most, without retries."""
    return sum(repeat * count_max_calls(cell.capability) for cell in cells if cell.skip is None)


def describe_spending(lab: Lab, cells: Sequence[Cell], *, repeat: int, caps: Caps) -> Iterator[str]:
    """Yield lines with the runs, calls and caps, and with the price of each target and specialist."""
    running = [cell for cell in cells if cell.skip is None]
    cases = len({cell.case.case_id for cell in running})
    targets = [lab.targets[name] for name in dict.fromkeys(cell.target for cell in running)]
    runs = count_runs(cells, repeat)
    yield (
        f"lab {lab.id}: {format_count(cases, 'fixture')}, {format_count(len(targets), 'target')}, "
        f"{format_count(repeat, 'repetition')}: {format_count(runs, 'run')}"
    )
    skipped = {cell.case.case_id for cell in cells if cell.skip is not None}
    if skipped:
        yield f"  skipped because of their modes: {format_count(len(skipped), 'fixture')}"
    calls = count_calls(cells, repeat)
    stop = f"stopped at {caps.calls:,}" if caps.calls is not None else "no cap on calls"
    yield f"  at most {format_count(calls, 'call')}, and retries; {stop}"
    yield f"  cost: {f'stopped at {format_nano_usd(caps.nusd)} USD' if caps.nusd is not None else 'no cap'}"
    capabilities = {cell.capability.name: cell.capability for cell in running}.values()
    if any(isinstance(node, ModelNode) for capability in capabilities for node in capability.flow):
        for target in targets:
            model = render_line(target.model)
            yield f"  target {target.id} ({model} at {target.backend}): {_describe_price(lab, target)}"
    for name, local in _find_specialists(capabilities):
        yield f"  specialist {name}: {'local, costs nothing' if local else _UNKNOWN}"


_UNKNOWN = "no price: its cost stays unknown, and the cap on cost does not count it"


def _describe_price(lab: Lab, target: Target) -> str:
    if target.local:
        return "local, costs nothing"
    price = lab.prices.get(target.model)
    if price is None:
        return _UNKNOWN
    tiers = price.to_json()
    return f"{tiers['input']} in, {tiers['output']} out, USD per million tokens"


def _find_specialists(capabilities: Iterable[Capability]) -> list[tuple[str, bool]]:
    return sorted(
        (f"{capability.name}/{node.id}", node.local)
        for capability in capabilities
        for node in capability.flow
        if isinstance(node, SpecialistNode)
    )
