from pathlib import Path
from typing import Any

import pytest

from orchestrator.lab.kind import LabKind
from orchestrator.lab.model import Expectation, Lab
from orchestrator.lab.recordings.offline import plan_playback
from orchestrator.lab.running import build_settings, list_player
from orchestrator.lab.selection import select_cases
from store.errors import UsageError
from store.rows import Caps, RunRecord
from tests.orchestrator.lab.labs import GUARD, JUDGE, SPECIALIST, completion, fixture, gate, lab, record, said
from tests.orchestrator.lab.sweeps import CHOSEN, results, swept

pytestmark = pytest.mark.anyio

DENIED = (Expectation(cel="decision.verdict == 'deny'", why="it deletes"),)


async def cells_of(found: Lab, **wanted: Any) -> dict[tuple[str, str], str | None]:
    cells = (await plan_playback(found, select_cases(found, **wanted))).cells
    return {cell.key: cell.skip.reason if cell.skip is not None else None for cell in cells}


async def played(found: Lab, tmp_path: Path) -> dict[tuple[str, str, int], RunRecord]:
    """Run the lab offline; outcome and reason of each run."""
    play = await plan_playback(found, select_cases(found))
    settings = build_settings(found, play.cells, mode="offline", caps=Caps())
    await swept(found, play.cells, settings, list_player(play.player), tmp_path / "runs.db")
    return results(tmp_path / "runs.db")


async def test_a_fixture_that_its_replay_or_a_rule_answers_runs_once_and_others_for_each_target() -> None:
    found = lab(fixture("hand", replay={"judge": said("allow")}), fixture("rule", command="rm -rf /"), fixture("asks"))

    assert await cells_of(found) == {
        ("gate/hand", "replay"): None,
        ("gate/rule", "replay"): None,
        ("gate/asks", "jev"): None,
        ("gate/asks", "nimble"): None,
    }


async def test_a_replay_that_leaves_a_node_open_that_is_not_come_to_is_whole() -> None:
    flow = gate(SPECIALIST, JUDGE)
    found = lab(
        fixture("decides", replay={"gate": {"verdict": "allow"}}),
        fixture("abstains", replay={"gate": {"abstain": "unsure"}}),
        capability=flow,
    )

    assert list(await cells_of(found)) == [
        ("gate/decides", "replay"),
        ("gate/abstains", "jev"),
        ("gate/abstains", "nimble"),
    ]


async def test_targets_narrow_to_what_their_cassettes_answer() -> None:
    found = lab(fixture("hand", replay={"judge": said("allow")}), fixture("asks"))

    assert [*await cells_of(found, targets=["jev"])] == [("gate/asks", "jev")]
    assert [*await cells_of(found, targets=["replay"])] == [("gate/hand", "replay")]
    with pytest.raises(UsageError, match="their own replay answer the selected fixtures, so their target is replay"):
        await cells_of(found, cases=["hand"], targets=["jev"])


async def test_the_fixtures_own_answers_alone_may_be_none() -> None:
    with pytest.raises(UsageError, match="only targets' cassettes answer the selected fixtures"):
        await cells_of(lab(fixture("asks")), targets=["replay"])


async def test_a_fixture_that_is_not_for_offline_is_skipped_for_its_mode() -> None:
    assert await cells_of(lab(fixture("live", modes=("live",)))) == {("gate/live", "replay"): "mode"}


async def test_a_cassette_is_played_as_it_was_recorded_failures_too(tmp_path: Path) -> None:
    one = fixture("one", expect=(Expectation(cel="status == 'ok' && decision.verdict == 'deny'", why="it deletes"),))
    found = lab(one, root=tmp_path)
    record(found, one, "jev", {"status": 200, "body": completion("deny")})
    record(found, one, "nimble", {"status": 503, "body": "busy"})

    runs = await played(found, tmp_path)

    jev, nimble = runs["gate/one", "jev", 0], runs["gate/one", "nimble", 0]
    assert (jev.outcome, jev.decision_status, jev.measured.model_resolved) == ("pass", "ok", "house-1-2026")
    assert (nimble.outcome, nimble.decision_status) == ("fail", "error")
    assert nimble.detail["decision"]["error"]["cause"] == "provider"
    assert (jev.measured.wall_ms, jev.measured.cost_nusd, jev.measured.calls) == (None, None, 0)
    assert nimble.measured.input_tokens is None


async def test_recorded_refusals_end_their_own_runs_alone(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(6)]
    found = lab(*map(fixture, names), root=tmp_path)
    for one, status in zip(found.cases, (401, 402, 403, 429, 529, 200), strict=True):
        record(found, one, "jev", {"status": status, "body": completion("allow")})

    runs = await played(found, tmp_path)

    statuses = [runs[f"gate/{name}", "jev", 0].decision_status for name in names]
    assert statuses == ["error"] * 5 + ["ok"]
    assert {run.outcome for (_, target, _), run in runs.items() if target == "jev"} == {"fail", "pass"}


async def test_a_stale_cassette_skips_its_run_with_the_reason(tmp_path: Path) -> None:
    one, two = fixture("one", version=2), fixture("two")
    found = lab(one, two, root=tmp_path)
    for target in ("jev", "nimble"):
        record(found, one, target, {"status": 200, "body": completion("allow")}, fixtureVersion=1)
        record(found, two, target, {"status": 200, "body": completion("allow")}, inputHash="0" * 64)

    runs = await played(found, tmp_path)

    assert {(run.outcome, run.reason) for run in runs.values()} == {("skipped", "stale")}
    message = runs["gate/one", "jev", 0].detail["message"]
    assert message.startswith("cassettes/gate/one/jev.json: fixture version 1 recorded, now 2")
    assert "input changed" in runs["gate/two", "jev", 0].detail["message"]


async def test_without_an_answer_a_run_is_skipped_and_the_missing_file_named(tmp_path: Path) -> None:
    runs = await played(lab(fixture("one"), root=tmp_path), tmp_path)

    run = runs["gate/one", "jev", 0]
    assert (run.outcome, run.reason, run.judged) == ("skipped", "no_cassette", False)
    assert "cassettes/gate/one/jev.json" in run.detail["message"]
    assert "'judge'" in run.detail["message"]


async def test_the_fixtures_own_answers_win_over_the_cassette(tmp_path: Path) -> None:
    one = fixture("one", replay={"gate": {"abstain": "unsure"}}, expect=DENIED)
    found = lab(one, root=tmp_path, capability=gate(SPECIALIST, JUDGE))
    record(
        found,
        one,
        "jev",
        answers={
            "gate": [{"status": 200, "body": {"verdict": "allow"}}],
            "judge": [{"status": 200, "body": completion("deny")}],
        },
    )

    run = (await played(found, tmp_path))["gate/one", "jev", 0]

    assert [step["outcome"] for step in run.detail["decision"]["trace"]] == ["abstained", "decided"]
    assert run.outcome == "pass"


async def test_a_lab_without_targets_skips_what_its_replays_leave_open(tmp_path: Path) -> None:
    found = lab(fixture("open"), fixture("hand", replay={"judge": said("allow")}), targets=(), root=tmp_path)

    runs = await played(found, tmp_path)

    assert {key[1] for key in runs} == {"replay"}
    assert runs["gate/open", "replay", 0].reason == "no_cassette"
    assert runs["gate/hand", "replay", 0].outcome == "pass"


async def test_all_bad_cassettes_are_told_at_once(tmp_path: Path) -> None:
    one = fixture("one")
    found = lab(one, root=tmp_path, capability=gate(GUARD, JUDGE))
    record(found, one, "jev", surplus=1)
    record(found, one, "nimble").write_text("{", encoding="utf-8")

    with pytest.raises(UsageError) as refused:
        await plan_playback(found, select_cases(found))

    text = str(refused.value)
    assert f"{tmp_path}/cassettes/gate/one/jev.json:1:" in text
    assert f"{tmp_path}/cassettes/gate/one/nimble.json:1:" in text
    assert refused.value.hint.startswith("`evalctl lab record` rewrites them")


async def test_what_is_played_is_part_of_what_a_resume_compares(tmp_path: Path) -> None:
    one = fixture("one")
    found = lab(one, root=tmp_path)
    record(found, one, "jev", {"status": 200, "body": completion("allow")})
    play = await plan_playback(found, select_cases(found))

    kind = LabKind(
        lab=found,
        cells=play.cells,
        settings=build_settings(found, play.cells, mode="offline", caps=Caps()),
        providers=list_player(play.player),
        stored_selection=CHOSEN,
    )

    assert set(kind.content) == {"lab.yaml", "config.yaml", "cassettes/gate/one/jev.json"}


async def test_a_very_large_decision_is_asserted_whole_and_stored_short(tmp_path: Path) -> None:
    large = {"verdict": "allow", "because": "x" * 200_000}
    whole = (Expectation(cel="size(decision.because) == 200000", why="all of it is there"),)
    found = lab(fixture("one", replay={"gate": large}, expect=whole), capability=gate(SPECIALIST, JUDGE))

    run = (await played(found, tmp_path))["gate/one", "replay", 0]

    assert run.outcome == "pass"
    assert run.detail["decision"]["decision"]["verdict"] == "allow"
    assert len(run.detail["decision"]["decision"]["because"]) < 1000
    assert run.detail["decision"]["decisionCutFrom"] > 200_000


@pytest.mark.parametrize("kind", ["link", "directory"])
async def test_a_cassette_that_is_no_file_of_the_lab_is_refused_and_nothing_of_it_is_told(
    tmp_path: Path, kind: str
) -> None:
    found = lab(fixture("asks"), root=tmp_path / "lab")
    file = record(found, found.cases[0], "jev", {"status": 200, "body": "x"})
    file.unlink()
    (tmp_path / "elsewhere").write_text("confidential", encoding="utf-8")
    if kind == "link":
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.mkdir()

    with pytest.raises(UsageError) as refused:
        await plan_playback(found, select_cases(found))

    assert str(refused.value).startswith(f"{tmp_path}/lab/cassettes/gate/asks/jev.json: ")
    assert "confidential" not in str(refused.value)
