"""The verdicts, the figures beside them, and the conditions under which either is told."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs
import pytest

from orchestrator.comparison import json_form, lines, markdown
from orchestrator.comparison.arm import Counts
from orchestrator.comparison.build import compare_arms
from orchestrator.comparison.model import ESTIMATED, MEASURED, Comparison, Incompatible, Metric
from store.tallies import StartGaps
from tests.orchestrator.comparison.sides import arm, counts

PRICED = {"inputRate": "1", "outputRate": "2.0"}


def words(found: Comparison) -> dict[str, str]:
    return {task.id: task.verdict for task in found.tasks}


def test_a_verdict_is_read_from_the_intervals() -> None:
    found = compare_arms(
        arm({"up": (0, 5), "down": (5, 5), "near": (1, 5), "few": (0, 4)}),
        arm({"up": (5, 5), "down": (0, 5), "near": (5, 5), "few": (5, 5)}, name="b"),
    )
    assert words(found) == {"down": "regressed", "few": "low power", "near": "inconclusive", "up": "improved"}
    assert found.verdicts == {"improved": 1, "regressed": 1, "inconclusive": 1, "low power": 1}
    assert found.suite.verdict == "inconclusive"


def test_an_errored_run_on_a_side_goes_before_everything_else() -> None:
    found = compare_arms(arm({"a": counts(0, 3, errored=2, planned=5)}), arm({"a": (5, 5)}, name="b"))
    assert words(found) == {"a": "not comparable"}
    assert found.tasks[0].why == "errored runs: 2 on the baseline"
    assert {delta.delta for delta in found.tasks[0].deltas.values()} == {None}
    assert found.limits[-1] == "2 errored runs excluded."


def test_modes_that_differ_are_not_comparable() -> None:
    found = compare_arms(arm({"a": (0, 5)}), arm({"a": (5, 5)}, name="b", mode="replay"), detail=True)
    assert (found.tasks[0].verdict, found.tasks[0].why) == ("not comparable", "the modes differ: live, replay")
    assert found.detail is None
    assert {delta.why for delta in found.suite.deltas.values() if delta.why} >= {
        "not comparable: the modes differ: live, replay"
    }


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ((("check", 1, 0, 0),), "unchanged"),
        ((("check", 0, 1, 0),), "changed"),
        ((("check", 1, 0, 0), ("scope", 1, 0, 0)), "changed"),
    ],
)
def test_in_replay_a_task_has_changed_or_not(said: tuple[tuple[str, int, int, int], ...], word: str) -> None:
    before = arm({"a": counts(1, 1, verifiers=(("check", 1, 0, 0),))}, mode="replay")
    after = arm({"a": counts(1, 1, verifiers=said)}, name="b", mode="replay")
    found = compare_arms(before, after, detail=True)
    assert (found.tasks[0].verdict, found.suite.verdict) == (word, word)
    assert found.detail is None
    assert found.notes[0].startswith("replay: ")
    shown = json_form.comparison_to_json(found)
    assert shown["tasks"][0]["baseline"]["wilson"] is None
    assert "[" not in next(line for line in lines.render_lines(found) if line.startswith("a "))


def test_nothing_replayed_is_nothing_unchanged() -> None:
    found = compare_arms(
        arm({"a": counts(0, 0, skipped=1, planned=1)}, mode="replay"),
        arm({"a": counts(0, 0, skipped=1, planned=1)}, name="b", mode="replay"),
    )
    assert (found.tasks[0].verdict, found.tasks[0].why) == ("not comparable", "one side has no judged run")


@pytest.mark.parametrize("other", [{"suite_id": "forms"}, {"suite_version": "1.3.0"}])
def test_other_suites_and_versions_are_refused_by_name(other: dict[str, Any]) -> None:
    with pytest.raises(Incompatible) as refused:
        compare_arms(arm({"a": (0, 5)}), arm({"a": (5, 5)}, **other))
    assert "shapes 1.2.0" in str(refused.value)
    assert next(iter(other.values())) in str(refused.value)


def test_tasks_on_one_side_only_are_named_and_in_no_figure() -> None:
    found = compare_arms(arm({"a": (0, 5), "gone": (5, 5)}), arm({"a": (5, 5), "new": (0, 5)}, name="b"))
    assert (found.only_baseline, found.only_candidate) == (("gone",), ("new",))
    assert (found.suite.baseline.judged, found.suite.candidate.passes) == (5, 5)
    assert found.suite.verdict == "improved"
    assert found.suite.deltas["wallMsMedian"].why == "not known on the baseline"
    assert found.suite.deltas["tokensPerRun"].delta == 0
    assert "only on the baseline, so left out of every figure: gone." in found.notes
    apart = compare_arms(arm({"a": (0, 5)}), arm({"b": (5, 5)}, name="b"))
    assert (apart.suite.verdict, apart.suite.why) == ("not comparable", "no task is on both sides")
    assert list(lines.render_lines(apart))


def test_differences_are_candidate_minus_baseline() -> None:
    before = counts(2, 5, cached_ratio=0.5, cached_runs=5, cost_usd=0.5)
    after = counts(4, 5, input_tokens=1000, wall_median_ms=400.0, cached_ratio=0.75, cached_runs=5, cost_usd=1.0)
    found = compare_arms(arm({"a": before}, conditions=PRICED), arm({"a": after}, name="b", conditions=PRICED))
    deltas = found.tasks[0].deltas
    assert deltas["inputTokensPerRun"].delta == 100
    assert (deltas["tokensPerRun"].baseline, deltas["tokensPerRun"].candidate) == (120, 220)
    assert deltas["tokensPerSuccess"].delta == 1100 / 4 - 600 / 2
    assert deltas["wallMsMedian"].delta == -600
    assert deltas["wallMsPerSuccess"].delta == 5000 / 4 - 5000 / 2
    assert deltas["cachedInputRatio"].delta == 0.25
    assert deltas["costUsdPerRun"].delta == pytest.approx(0.1)
    assert deltas["costUsdPerSuccess"].delta == 0


def why(metric: Metric, before: Counts, after: Counts, **more: Any) -> str | None:
    return compare_arms(arm({"a": before}, **more), arm({"a": after}, name="b")).tasks[0].deltas[metric].why


def test_a_figure_that_is_missing_says_where_and_is_never_nothing() -> None:
    fine, silent = counts(2, 5), counts(2, 5, input_tokens=None, output_tokens=None)
    assert why("tokensPerRun", fine, silent) == "not reported by the candidate in every judged run"
    assert why("cachedInputRatio", fine, fine) == "not reported by the baseline"
    assert why("tokensPerSuccess", counts(0, 5), fine) == "no success on the baseline"
    assert why("tokensPerRun", counts(0, 0), fine) == "nothing judged on the baseline"
    assert why("costUsdPerRun", fine, fine) == "not comparable: no rates were given for the baseline"


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"compaction": {"auto": True, "threshold": 0.6, "maxContextChars": 800_000}}, "threshold 0.85, 0.6"),
        ({"compaction": {"auto": True, "threshold": 0.85, "maxContextChars": 9}}, "maxContextChars 800000, 9"),
        ({"contextWindow": 4096}, "contextWindow None, 4096"),
    ],
)
def test_under_other_compaction_settings_tokens_and_costs_are_not_compared_but_time_is(
    other: dict[str, Any], differs: str
) -> None:
    sides = counts(2, 5, cost_usd=1.0)
    found = compare_arms(
        arm({"a": sides}, conditions=PRICED), arm({"a": sides}, name="b", conditions={**PRICED, **other})
    ).tasks[0]
    assert found.verdict == "inconclusive"
    assert found.deltas["wallMsMedian"].delta == 0
    for metric in {*MEASURED, *ESTIMATED} - {"wallMsMedian", "wallMsPerSuccess"}:
        assert found.deltas[metric].delta is None
        assert found.deltas[metric].why == f"not comparable: the compaction settings differ: {differs}"


def test_settings_that_are_not_told_are_the_same_where_the_configuration_hash_is() -> None:
    unknown = {"compaction": None}
    assert why("tokensPerRun", counts(2, 5), counts(2, 5), conditions=unknown) is None
    assert why("tokensPerRun", counts(2, 5), counts(2, 5), conditions={**unknown, "configHash": "other"}) == (
        "not comparable: the compaction settings are not known to be the same"
    )


def test_costs_are_compared_at_the_same_rates_only() -> None:
    sides = counts(2, 5, cost_usd=1.0)
    before = arm({"a": sides}, conditions=PRICED)
    same = arm({"a": sides}, name="b", conditions={"inputRate": "1.00", "outputRate": 2})
    other = arm({"a": sides}, name="b", conditions={"inputRate": "1", "outputRate": "3"})
    strange = arm({"a": sides}, name="b", conditions={"inputRate": "much", "outputRate": "3"})
    assert compare_arms(before, same).tasks[0].deltas["costUsdPerRun"].delta == 0
    assert (
        "the rates differ: 1 and 2.0; 1 and 3 USD" in compare_arms(before, other).tasks[0].deltas["costUsdPerRun"].why
    )
    assert "are not numbers" in compare_arms(before, strange).tasks[0].deltas["costUsdPerRun"].why


def test_compaction_is_always_told_and_first_among_the_incidents() -> None:
    found = compare_arms(
        arm({"a": counts(5, 5, incidents={"approval_denied": 1})}),
        arm({"a": counts(0, 5, incidents={"compaction": 3, "aborted": 2}, compacted=2)}, name="b"),
    )
    assert list(json_form.comparison_to_json(found)["summary"]["incidents"].items()) == [
        ("compaction", {"baseline": 0, "candidate": 3}),
        ("aborted", {"baseline": 0, "candidate": 2}),
        ("approval_denied", {"baseline": 1, "candidate": 0}),
    ]
    shown = "\n".join(lines.render_lines(found))
    assert "incidents: compaction 0 -> 3; aborted 0 -> 2; approval_denied 1 -> 0" in shown
    assert "0/5, 2/5 runs" in shown
    assert "| compaction | 0 | 3 |" in markdown.render_markdown(found)


def test_a_flow_has_no_context_to_compact_and_only_what_happened_is_told() -> None:
    flow = {"subject": "decision flow"}
    quiet = compare_arms(arm({"a": (5, 5)}, conditions=flow), arm({"a": (0, 5)}, name="b", conditions=flow))
    busy = arm({"a": counts(0, 5, incidents={"retried": 2})}, name="b", conditions=flow)

    assert json_form.comparison_to_json(quiet)["summary"]["incidents"] == {}
    assert "incidents" not in "\n".join(lines.render_lines(quiet))
    assert "Incidents" not in markdown.render_markdown(quiet)
    assert "incidents: retried 0 -> 2" in [*lines.render_lines(compare_arms(quiet.baseline, busy))]


def test_every_comparison_ends_with_its_limits() -> None:
    found = compare_arms(arm({"a": (0, 5), "b": (1, 5)}), arm({"a": (5, 5), "b": (1, 5)}, name="b"))
    footnote = (
        'Conservative screen on interval overlap, not a significance test. Inconclusive is not "no difference". '
        "Repetitions are assumed independent; nothing is paired. No correction across the 2 tasks compared. "
        "0 errored runs excluded."
    )
    assert list(lines.render_lines(found))[-1] == footnote
    assert " ".join(json_form.comparison_to_json(found)["limits"]) == footnote
    assert markdown.render_markdown(found).count("\n- ") >= 5


def test_what_differs_between_the_sides_is_told() -> None:
    found = compare_arms(
        arm({"a": (0, 5)}), arm({"a": (5, 5)}, name="b", conditions={"model": "m-2", "configHash": "d"})
    )
    assert found.differences == {"model": ("m-1", "m-2"), "configHash": ("c0ffee", "d")}
    assert any("either may cause a difference" in note for note in found.notes)


def test_a_suite_that_changed_without_its_version_is_told() -> None:
    files = {"suite.json": "1", "fixtures/a/x.py": "2", "same": "3"}
    found = compare_arms(
        arm({"a": (0, 5)}, content=files), arm({"a": (5, 5)}, name="b", content={"suite.json": "0", "same": "3"})
    )
    assert "fixtures/a/x.py, suite.json" in found.notes[0]


def test_a_side_that_is_not_finished_and_a_side_that_is_the_other_are_told() -> None:
    half = arm({"a": counts(0, 3, planned=9, unfinished=4, skipped=2)})
    notes = compare_arms(half, half).notes
    assert notes == (
        "both sides are the same sweep: there can be no difference.",
        "4 of the 9 runs planned for the baseline have no result yet.",
        "2 of the 9 runs planned for the baseline were skipped, so they are in no rate.",
        "4 of the 9 runs planned for the candidate have no result yet.",
        "2 of the 9 runs planned for the candidate were skipped, so they are in no rate.",
    )


def test_pairs_that_began_far_apart_are_told() -> None:
    apart = StartGaps(pairs=5, mean_us=60_000_000.0, longest_us=700_000_000, wide=1)
    found = compare_arms(arm({"a": (0, 5)}), arm({"a": (5, 5)}, name="b"), gaps=apart)
    assert any(note.startswith("1 of 5 pairs began more than 10 minutes apart") for note in found.notes)
    assert json_form.comparison_to_json(found)["startGaps"] == {
        "pairs": 5,
        "meanMs": 60_000.0,
        "longestMs": 700_000.0,
        "wide": 1,
    }
    assert "the runs of 5 pairs began 60.0 s apart on average, 700.0 s at most" in "\n".join(lines.render_lines(found))


def test_detail_stands_beside_the_verdicts_and_changes_none() -> None:
    before = arm({"up": (0, 5), "near": (1, 5), "few": (0, 3), "none": counts(0, 0, errored=5, planned=5), "x": (2, 5)})
    after = arm({"up": (5, 5), "near": (4, 5), "few": (3, 3), "none": (5, 5), "x": (2, 5)}, name="b")
    plain, found = compare_arms(before, after), compare_arms(before, after, detail=True)
    assert words(plain) == words(found)
    assert plain.detail is None
    tasks = {task.id: task.detail for task in found.tasks}
    assert tasks["up"].fisher_p == pytest.approx(1 / 126)
    assert tasks["up"].holm_p == pytest.approx(3 / 126)
    assert tasks["up"].newcombe[0] == pytest.approx(0.3855, abs=1e-3)
    assert tasks["up"].newcombe[1] == 1.0
    assert tasks["up"].repetitions_needed == 5
    assert tasks["near"].repetitions_needed == 16
    assert tasks["x"].repetitions_needed is None
    assert (tasks["few"].fisher_p, tasks["few"].holm_p) == (None, None)
    assert tasks["few"].newcombe is not None
    assert tasks["none"] == attrs.evolve(tasks["none"], newcombe=None, fisher_p=None, repetitions_needed=None)
    beyond = found.detail
    assert (beyond.cases, beyond.left_out, beyond.tests, beyond.survivors) == (4, ("none",), 3, 1)
    assert beyond.verdict == "low power"
    assert beyond.like_these.diff == pytest.approx((1 + 0.6 + 1 + 0) / 4)
    assert beyond.these.diff == pytest.approx(beyond.like_these.diff)
    assert beyond.these.se < beyond.like_these.se
    shown = "\n".join(lines.render_lines(found))
    assert "cases like these, paired over 4 cases: +65.0 points; below 5 cases an interval means nothing" in shown
    assert "these cases only: +65.0 points" in shown
    assert "no difference seen" in shown
    assert "Beyond the verdict" in markdown.render_markdown(found)


def test_one_run_a_side_is_paired_case_by_case() -> None:
    names = [f"c{place}" for place in range(12)]
    found = compare_arms(
        arm({name: (int(place < 4), 1) for place, name in enumerate(names)}),
        arm({name: (int(place > 1), 1) for place, name in enumerate(names)}, name="b"),
        detail=True,
    )
    assert set(words(found).values()) == {"low power"}
    seen = found.detail.outcomes
    assert (seen.both, seen.only_candidate, seen.only_baseline, seen.neither) == (2, 8, 2, 0)
    assert seen.mcnemar_p == pytest.approx(0.109375)
    assert found.detail.these is None
    assert found.detail.needed.variances.assumed
    assert "McNemar p 0.11" in "\n".join(lines.render_lines(found))


@pytest.mark.parametrize("cases", [2, 4, 5, 6])
def test_no_interval_of_the_mean_difference_leaves_what_is_possible(cases: int) -> None:
    names = [f"c{place}" for place in range(cases)]
    found = compare_arms(
        arm(dict.fromkeys(names, (2, 5))),
        arm({name: (5 * (place % 2), 5) for place, name in enumerate(names)}, name="b"),
        detail=True,
    )
    shown = "\n".join(lines.render_lines(found))
    assert ("below 5 cases an interval means nothing" in shown) == (cases < 5)
    bounds = [float(bound) for bound in re.findall(r"[-+][\d.]+(?=[,\]])", shown.partition("cases like these")[2])]
    assert bounds
    assert all(-100 <= bound <= 100 for bound in bounds)


def test_where_every_case_moved_alike_no_probability_is_made_up() -> None:
    names = [f"c{place}" for place in range(6)]
    found = compare_arms(arm(dict.fromkeys(names, (1, 5))), arm(dict.fromkeys(names, (2, 5)), name="b"), detail=True)
    shown = "\n".join(lines.render_lines(found))
    assert "every case moved by +20.0 points, sign-flip p 0.031: improved" in shown
    assert json_form.comparison_to_json(found)["beyond"]["casesLikeThese"]["p"] is None


def test_a_name_moves_no_cursor_and_becomes_no_markup() -> None:
    evil = "\x1b[2Jx|<b>\u202e"
    found = compare_arms(arm({evil: (0, 5)}), arm({evil: (5, 5)}, name="b\x07"), detail=True)
    shown = list(lines.render_lines(found))
    assert all(line.isprintable() for line in shown)
    assert "<b>" not in markdown.render_markdown(found)
    assert json.loads(json_form.render_json_line(found))["tasks"][0]["id"] == evil
    assert json_form.render_json(found).isascii()


def test_the_same_sides_give_the_same_bytes() -> None:
    sides = arm({"b": (0, 5), "a": (1, 5)}), arm({"a": (5, 5), "b": (2, 5)}, name="b")
    assert json_form.render_json(compare_arms(*sides, detail=True)) == json_form.render_json(
        compare_arms(*sides, detail=True)
    )
