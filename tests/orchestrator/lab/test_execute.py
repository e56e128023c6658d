from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.engine.kind import PricedProvider
from orchestrator.engine.worker import SweepEnd
from orchestrator.lab.cells import list_live_cells
from orchestrator.lab.model import Expectation, Lab
from orchestrator.lab.running import build_settings, open_priced_providers
from orchestrator.lab.selection import select_cases
from providers.base import Answer, Request
from providers.errors import ProviderError
from providers.prices.price import Price
from providers.usage import Usage
from store.rows import Caps, RunRecord
from tests.orchestrator.lab.labs import JEV, JUDGE, SPECIALIST, fixture, gate, lab
from tests.orchestrator.lab.sweeps import Answering, always, results, swept

pytestmark = pytest.mark.anyio

PRICE = Price(input=1_000_000_000, output=2_000_000_000)
"""1 and 2 USD per million tokens."""
CAPS = Caps(calls=100)
NEVER_BROKEN = (Expectation(cel="status != 'error'", why="a plain command breaks nothing"),)


async def measured(
    found: Lab,
    tmp_path: Path,
    answers: Callable[..., Any] | None,
    *,
    k: int = 1,
    caps: Caps = CAPS,
    prices: dict[str, Price] | None = None,
    open_all: dict[str, Answering] | None = None,
) -> tuple[SweepEnd, dict[str, Answering], dict[tuple[str, str, int], RunRecord]]:
    """Run the lab live against *answers*; the providers that were asked."""
    cells = tuple(list_live_cells(found.daemon.capabilities, select_cases(found)))
    settings = build_settings(found, cells, mode="live", caps=caps, k=k, seed=1)
    opened = open_all or {"house": Answering(answers)}
    asked = open_priced_providers(cells, prices or {}, lambda _capabilities: opened)
    end = await swept(found, cells, settings, asked, tmp_path / "runs.db")
    return end, opened, results(tmp_path / "runs.db")


async def test_assertions_alone_say_pass_or_fail(tmp_path: Path) -> None:
    found = lab(
        fixture("good"),
        fixture("bad", expect=(*NEVER_BROKEN, Expectation(cel="decision.verdict == 'deny'", why="never"))),
    )

    _, opened, runs = await measured(found, tmp_path, always("allow"))

    good, bad = runs["gate/good", "jev", 0], runs["gate/bad", "nimble", 0]
    assert (good.outcome, good.composite, good.judged, good.decision_status) == ("pass", 1.0, True, "ok")
    assert (bad.outcome, bad.composite, bad.judged, bad.reason) == ("fail", 0.0, True, None)
    assert [(one.verifier, one.kind, one.verdict) for one in bad.verdicts] == [
        ("expect[0]", "cel", "pass"),
        ("expect[1]", "cel", "fail"),
    ]
    assert bad.verdicts[1].detail["why"] == "never"
    assert good.detail["decision"]["decision"] == {"verdict": "allow"}
    assert good.detail["decision"]["confidence"] == 0.9
    assert {request.model for request in opened["house"].asked} == {"jev-1", "nimble-1"}


async def test_a_rule_decides_without_a_call(tmp_path: Path) -> None:
    found = lab(fixture("rm", command="rm -rf /", expect=(Expectation(cel="decision.verdict == 'deny'", why="x"),)))

    _, opened, runs = await measured(found, tmp_path, always("allow"))

    run = runs["gate/rm", "jev", 0]
    assert (run.outcome, run.measured.calls, run.measured.cost_nusd) == ("pass", 0, 0)
    assert (run.measured.input_tokens, run.measured.output_tokens, run.measured.cached_tokens) == (0, 0, None)
    assert not opened["house"].asked


async def test_an_infrastructural_error_is_an_error_only_where_an_assertion_failed(tmp_path: Path) -> None:
    async def down(request: Request) -> None:
        raise ProviderError(kind="server_error", message="it is down", retryable=False, status=503)

    tolerant = (Expectation(cel="status == 'error' || decision.verdict == 'allow'", why="down is no reason to allow"),)
    found = lab(fixture("strict", expect=NEVER_BROKEN), fixture("tolerant", expect=tolerant))

    _, _, runs = await measured(found, tmp_path, down)

    strict, calm = runs["gate/strict", "jev", 0], runs["gate/tolerant", "jev", 0]
    assert (strict.outcome, strict.reason, strict.judged, strict.composite) == ("error", "provider", True, 0.0)
    assert (strict.decision_status, strict.again) == ("error", False)
    assert (calm.outcome, calm.decision_status) == ("pass", "error")


async def test_rubbish_from_a_model_is_a_failed_run_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def rubbish(request: Request) -> Answer:
        return Answer(text="\x1b[31m{{{" * 1000, usage=Usage(input=1, output=1), finish="stop")

    found = lab(fixture("one", expect=NEVER_BROKEN), fixture("two", expect=NEVER_BROKEN))

    end, _, runs = await measured(found, tmp_path, rubbish)

    assert {(run.outcome, run.reason, run.detail["decision"]["error"]["cause"]) for run in runs.values()} == {
        ("fail", None, "bad_answer")
    }
    assert (end.stopped, end.remaining) == (None, 0)


async def test_costs_are_summed_where_every_call_has_one_and_unknown_else(tmp_path: Path) -> None:
    _, _, runs = await measured(lab(fixture("one"), targets=(JEV,)), tmp_path, always("allow"), prices={"jev-1": PRICE})

    run = runs["gate/one", "jev", 0]
    assert (run.measured.cost_nusd, run.measured.cost_source) == (1_200_000, "prices")
    assert (run.measured.input_tokens, run.measured.output_tokens) == (1000, 100)


async def test_a_local_target_costs_nothing_even_where_nothing_is_reported(tmp_path: Path) -> None:
    _, _, runs = await measured(lab(fixture("one")), tmp_path, always("allow", usage=None))

    assert runs["gate/one", "nimble", 0].measured.cost_nusd == 0
    assert runs["gate/one", "jev", 0].measured.cost_nusd is None


async def test_a_bound_is_no_cost(tmp_path: Path) -> None:
    found = lab(fixture("one"), targets=(JEV,))

    _, _, runs = await measured(
        found, tmp_path, always("allow", usage=None), prices={"jev-1": PRICE}, caps=Caps(nusd=10**12)
    )

    run = runs["gate/one", "jev", 0]
    assert run.detail["spent"]["nusd"] > 0
    assert (run.measured.cost_nusd, run.measured.cost_source) == (None, None)


async def test_a_target_without_a_price_is_asked_under_a_cap_on_cost_that_cannot_count_it(tmp_path: Path) -> None:
    found = lab(fixture("one"), targets=(JEV,))

    end, _, runs = await measured(found, tmp_path, always("allow"), caps=Caps(nusd=1))

    run = runs["gate/one", "jev", 0]
    assert (end.stopped, run.outcome, run.measured.cost_nusd) == (None, "pass", None)


async def test_a_specialist_without_a_price_makes_the_cost_unknown_and_a_local_one_does_not(tmp_path: Path) -> None:
    async def unsure(request: Request) -> Answer:
        return Answer(text='{"abstain": "not mine"}', finish="stop")

    for local, cost in ((False, None), (True, 1_200_000)):
        flow = gate(attrs.evolve(SPECIALIST, local=local), JUDGE)
        found = lab(fixture("one"), capability=flow, targets=(JEV,))
        opened = {"house": Answering(always("allow")), "exec:gate/gate": Answering(unsure, account="exec")}
        store = tmp_path / str(local)
        store.mkdir()
        _, _, runs = await measured(found, store, None, open_all=opened, prices={"jev-1": PRICE})

        run = runs["gate/one", "jev", 0]
        assert (run.measured.calls, run.measured.cost_nusd, run.outcome) == (2, cost, "pass")
        assert [step["outcome"] for step in run.detail["decision"]["trace"]] == ["abstained", "decided"]


async def test_a_specialist_takes_no_room_of_a_cap_on_tokens_that_only_a_model_could_fill(tmp_path: Path) -> None:
    async def allows(request: Request) -> Answer:
        return Answer(text='{"verdict": "allow"}', finish="stop")

    found = lab(*(fixture(f"f{number}") for number in range(5)), capability=gate(SPECIALIST, JUDGE), targets=(JEV,))
    opened = {"house": Answering(always("allow")), "exec:gate/gate": Answering(allows, account="exec")}

    end, _, runs = await measured(found, tmp_path, None, open_all=opened, caps=Caps(tokens=100))

    assert (end.stopped, {run.outcome for run in runs.values()}) == (None, {"pass"})


async def test_a_spent_cap_stops_the_sweep_and_what_was_not_run_is_skipped_for_it(tmp_path: Path) -> None:
    found = lab(*(fixture(f"f{number}") for number in range(5)))

    end, opened, runs = await measured(found, tmp_path, always("allow"), caps=Caps(calls=7), k=2)

    assert len(opened["house"].asked) == 7
    assert end.stopped == "budget"
    told = [(run.outcome, run.reason, run.again) for run in runs.values()]
    assert told.count(("pass", None, False)) == 7
    assert told.count(("skipped", "budget", True)) == 13


async def test_an_account_that_refuses_for_good_is_asked_no_more_and_the_others_are(tmp_path: Path) -> None:
    async def refused(request: Request) -> None:
        raise ProviderError(kind="auth", message="no such key", retryable=False, status=401)

    other = attrs.evolve(JEV, id="other", backend="other")
    found = lab(*(fixture(f"f{number}", expect=NEVER_BROKEN) for number in range(4)), targets=(JEV, other))
    opened = {"house": Answering(refused), "other": Answering(always("allow"), account="other")}

    _, _, runs = await measured(found, tmp_path, None, open_all=opened)

    assert {run.outcome for (_, target, _), run in runs.items() if target == "other"} == {"pass"}
    assert {(run.outcome, run.reason) for (_, target, _), run in runs.items() if target == "jev"} <= {
        ("error", "auth"),
        ("skipped", "provider_blocked"),
    }


async def test_a_fixture_of_another_mode_is_skipped_once(tmp_path: Path) -> None:
    found = lab(fixture("one", modes=("offline",)), fixture("two"))

    _, opened, runs = await measured(found, tmp_path, always("allow"), k=3)

    assert runs["gate/one", "jev", 0].outcome == "skipped"
    assert runs["gate/one", "jev", 0].reason == "mode"
    assert len(opened["house"].asked) == 6
    assert len(runs) == 8


def test_asked_is_never_empty() -> None:
    found = lab(fixture("one"), capability=gate(gate().flow[0]))
    cells = tuple(list_live_cells(found.daemon.capabilities, select_cases(found)))

    asked = open_priced_providers(cells, {}, lambda _capabilities: pytest.fail("nobody is to be opened"))

    assert all(isinstance(one, PricedProvider) for one in asked.values())
    assert len(asked) == 1
