import pytest

from orchestrator.lab.cells import list_live_cells
from orchestrator.lab.model import Lab, Target
from orchestrator.lab.selection import select_cases
from orchestrator.lab.spending import describe_spending, get_budget
from providers.prices.price import Price
from store.errors import UsageError
from store.rows import Caps
from tests.orchestrator.lab.labs import JUDGE, SPECIALIST, fixture, gate, lab


def told(found: Lab, *, repeat: int = 1, caps: Caps | None = None) -> list[str]:
    cells = tuple(list_live_cells(found.daemon.capabilities, select_cases(found)))
    return list(describe_spending(found, cells, repeat=repeat, caps=caps or Caps(calls=7)))


def test_runs_calls_caps_and_prices_are_said() -> None:
    found = lab(
        fixture("a"),
        fixture("b"),
        fixture("c", modes=("offline",)),
        capability=gate(SPECIALIST, JUDGE),
        prices={"jev-1": Price(input=10**9, output=2 * 10**9)},
    )

    assert told(found, repeat=3, caps=Caps(calls=7, nusd=10**8)) == [
        "lab small: 2 fixtures, 2 targets, 3 repetitions: 12 runs",
        "  skipped because of their modes: 1 fixture",
        "  at most 24 calls, and retries; stopped at 7",
        "  cost: stopped at 0.1 USD",
        "  target jev (jev-1 at house): 1 in, 2 out, USD per million tokens",
        "  target nimble (nimble-1 at house): local, costs nothing",
        "  specialist gate/gate: no price: its cost stays unknown, and the cap on cost does not count it",
    ]


def test_a_missing_cap_is_said() -> None:
    assert "  at most 2 calls, and retries; no cap on calls" in told(lab(fixture("a")), caps=Caps(nusd=1))
    assert "  cost: no cap" in told(lab(fixture("a")))


def test_where_no_model_is_asked_targets_have_no_price() -> None:
    assert [line for line in told(lab(fixture("a"), capability=gate(gate().flow[0]))) if "target " in line] == []


def test_without_a_budget_nothing_is_asked() -> None:
    with pytest.raises(UsageError, match=r"/nowhere/lab.yaml: it has no budget"):
        get_budget(lab(budget=None))


def test_a_model_s_name_is_shown_and_not_obeyed() -> None:
    odd = Target(id="odd", backend="house", model="\x1b[31m\nmodel")
    assert "\\u001b[31m\\u000amodel" in "\n".join(told(lab(fixture("a"), targets=(odd,))))
