"""What the figures of a lab's report are about, and what is in none of them."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.lab.report import json_form, markdown, terminal
from orchestrator.lab.report.build import build_report
from orchestrator.lab.report.model import TargetRow
from orchestrator.lab.report.notes import REPEAT_NOTE
from orchestrator.lab.report.run import LabRun
from orchestrator.reports.hints import Hint
from store.stats.rates import wilson_interval
from tests.orchestrator.lab.report.runs import JEV, NIMBLE, broken, facts, run


def only_row(runs: list[LabRun], **more: Any) -> TargetRow:
    (capability,) = build_report(facts(**more), runs).capabilities
    (row,) = capability.rows
    return row


def text(runs: list[LabRun], **more: Any) -> str:
    return terminal.render_plain(build_report(facts(**more), runs))


def test_pass_is_over_the_runs_that_were_not_skipped_and_errors_count() -> None:
    runs = [
        *(run(repetition=number) for number in range(3)),
        run(repetition=3, outcome="fail"),
        run(repetition=4, outcome="error", reason="provider", decision_status="error", confidence=None),
        run(repetition=5, outcome="skipped", reason="budget"),
    ]

    row = only_row(runs)

    assert (row.passes, row.judged, row.planned) == (3, 5, 6)
    assert row.wilson == wilson_interval(3, 5)
    assert row.skipped == {"budget": 1}
    assert (row.errors, row.infrastructure) == (1, {"provider": 1})


def test_a_fixture_is_stable_where_outcome_and_status_are_the_same_in_all_repetitions() -> None:
    runs = [
        *(run("steady", repetition=number) for number in range(3)),
        *(run("word", repetition=number, decision_status=word) for number, word in enumerate(("ok", "abstain", "ok"))),
        *(run("flaky", repetition=number, outcome=word) for number, word in enumerate(("pass", "fail"))),
        run("once"),
    ]

    report = build_report(facts(), runs)
    (row,) = report.capabilities[0].rows

    assert (row.stability.same, row.stability.repeated, row.stability.single) == (1, 3, 1)
    assert row.stability.fraction == pytest.approx(1 / 3)
    assert [(one.case, dict(one.endings)) for one in report.capabilities[0].unstable] == [
        ("toolgate/flaky", {"fail, ok": 1, "pass, ok": 1}),
        ("toolgate/word", {"pass, ok": 2, "pass, abstain": 1}),
    ]


def test_what_ran_only_once_though_more_was_asked_for_is_counted() -> None:
    runs = [run("a"), run("a", repetition=1), run("b"), run("c")]

    notes = build_report(facts(repeat=2), runs).notes

    assert "stability: 2 fixtures and targets ran once, which says nothing about stability." in notes
    assert REPEAT_NOTE not in notes


def test_long_lists_are_cut_on_the_terminal_and_whole_in_the_file() -> None:
    runs = [run(f"f{n:03}", outcome="skipped", reason="stale") for n in range(50)]
    runs += [run(f"g{n:03}", outcome="fail") for n in range(50)]

    report = build_report(facts(), runs)

    shown = terminal.render_plain(report)
    assert "skipped: and 30 more: --json and report.md show all of them" in shown
    assert "and 30 more that failed: --json and report.md show all of them" in shown
    assert markdown.render_markdown(report).count("stale") == 51
    assert len(json_form.report_to_json(report)["capabilities"][0]["failing"]) == 50


@pytest.mark.parametrize("mode", ["live", "offline"])
def test_one_repetition_says_nothing_about_stability_and_the_report_says_so(mode: str) -> None:
    report = build_report(facts(mode=mode, repeat=1), [run("a"), run("b")])

    assert REPEAT_NOTE in report.notes
    assert report.capabilities[0].rows[0].stability.fraction is None
    assert "n/a" in terminal.render_plain(report)
    assert REPEAT_NOTE not in build_report(facts(), [run("a"), run("a", repetition=1)]).notes


def test_latency_is_over_runs_that_called_a_backend() -> None:
    runs = [run(repetition=number, wall_ms=100 * (number + 1)) for number in range(4)]
    runs.append(run(repetition=4, wall_ms=0, asked=False, calls=0, cost_nusd=0))

    row = only_row(runs)

    assert (row.latency.n, row.latency.p50_ms) == (4, 250)
    assert row.latency.p95_ms == pytest.approx(385)
    assert "0.385 s" in text(runs)
    few = "p95 near the maximum: jev (n=4)"
    assert few in text(runs)
    many = [run(target="nimble", repetition=number, wall_ms=100) for number in range(20)]
    assert "near the maximum" not in text(many)
    assert few in text([*runs, *many]).splitlines()
    assert few in markdown.render_markdown(build_report(facts(), [*runs, *many])).replace("\\", "")


def test_a_cost_is_the_sum_of_what_is_known_and_unknown_where_one_run_lacks_a_price() -> None:
    paid = [run(repetition=0), run(repetition=1)]
    cut_short = run(repetition=2, outcome="skipped", reason="budget", asked=True, calls=1, cost_nusd=500_000)

    assert only_row(paid).cost.nusd == 2_000_000
    assert only_row([*paid, cut_short]).cost.nusd == 2_500_000
    assert "$0.0025" in text([*paid, cut_short])

    unknown = [*paid, run(repetition=2, cost_nusd=None)]
    assert (only_row(unknown).cost.nusd, only_row(unknown).cost.unknown) == (None, 1)
    assert "unknown" in text(unknown)
    assert "no cap on cost controls" in text(unknown)


def test_a_local_target_costs_nothing_and_says_that_it_is_local() -> None:
    assert "$0 (local)" in text([run(target="nimble", cost_nusd=0, local=True)])
    assert "$0 (local)" not in text([run(cost_nusd=0)])


def test_a_brier_score_is_over_confidences_and_right_means_that_every_assertion_held() -> None:
    runs = [
        run("a", confidence=0.9),
        run("b", confidence=0.8, outcome="fail"),
        run("c", confidence=None),
        run("d", confidence=None, decision_status="abstain"),
    ]

    row = only_row(runs)

    assert (row.calibration.n, row.calibration.silent, row.calibration.right) == (2, 2, 1)
    assert row.calibration.brier == pytest.approx((0.01 + 0.64) / 2)
    assert [one.n for one in row.calibration.bins] == [0] * 8 + [1, 1]
    assert "without a confidence, left out of calibration: 2 of jev on toolgate." in text(runs)


@pytest.mark.parametrize(("runs", "told"), [(49, False), (50, True)])
def test_a_calibration_error_is_told_from_fifty_confidences_on_with_its_caveat(runs: int, told: bool) -> None:
    every = [run(f"f{number}", outcome="pass" if number % 3 else "fail", confidence=0.75) for number in range(runs)]

    shown = text(every)

    assert ("ECE is biased upward and depends on bins; N=50" in shown) is told
    assert ("no calibration error is shown" in shown) is not told
    assert "skill" in shown


def test_an_interval_of_the_brier_score_is_over_fixtures_not_over_runs() -> None:
    runs = [run(f"f{case}", repetition=number, confidence=0.5 + case / 20) for case in range(6) for number in range(5)]
    once = [one for one in runs if one.repetition == 0]

    assert only_row(runs).calibration.interval == pytest.approx(only_row(once).calibration.interval)
    assert only_row(once[:4]).calibration.interval is None


def test_failing_fixtures_tell_the_why_of_each_broken_assertion_and_the_values_that_broke_it() -> None:
    runs = [
        run(repetition=0, outcome="fail", verdicts=(broken(0), broken(10, "Later"), broken(2, "Earlier"))),
        run(repetition=1, outcome="fail", verdicts=(broken(0, values={"status": "error"}, reason="no such key"),)),
        run(repetition=2),
    ]

    (failing,) = build_report(facts(), runs).capabilities[0].failing

    assert (failing.failed, failing.judged) == (2, 3)
    assert [one.assertion for one in failing.broken] == ["expect[0]", "expect[2]", "expect[10]"]
    assert [(one.runs, len(one.examples)) for one in failing.broken] == [(2, 2), (1, 1), (1, 1)]
    shown = text(runs)
    assert "FAILED toolgate/rm-root, jev: 2 of 3 runs did not pass" in shown
    assert "why: Deleting the root must never be allowed without asking (in 2 of 3 runs)" in shown
    assert 'with status = "error" (no such key)' in shown


def test_the_same_values_are_told_once_and_more_than_three_are_counted() -> None:
    many = [run(repetition=n, outcome="fail", verdicts=(broken(values={"n": n % 5}),)) for n in range(10)]

    (found,) = build_report(facts(), many).capabilities[0].failing[0].broken

    assert (found.runs, len(found.examples), found.different) == (10, 3, 5)
    assert "and with 2 other values" in text(many)


def test_a_decision_that_failed_says_why() -> None:
    error = {"cause": "specialist", "message": "exit status 3", "node": "gate"}
    shown = text([run(outcome="fail", decision_status="error", error=error)])

    assert "error: specialist: exit status 3 (node gate)" in shown


def test_a_cause_that_a_message_begins_with_is_said_once() -> None:
    errors = [
        {"cause": "timeout", "message": "timeout: no whole answer within 700 ms", "node": "gate"},
        {"cause": "auth", "message": "auth (HTTP 401): no such key", "node": "judge"},
    ]
    shown = text([run(outcome="fail", decision_status="error", error=error) for error in errors])

    assert "error (in 1 of 2 runs): timeout: no whole answer within 700 ms (node gate)" in shown
    assert "error (in 1 of 2 runs): auth (HTTP 401): no such key (node judge)" in shown


def test_an_abstention_that_fails_says_why_the_most_frequent_reason_first() -> None:
    reasons = ["too close", "too far", "too far", "tired", "bored", "\x1b[31mgone"]
    away = {"outcome": "fail", "decision_status": "abstain", "decision": None}
    runs = [run(repetition=number, abstain=why, **away) for number, why in enumerate(reasons)]
    passed = run(repetition=9, decision_status="abstain", decision=None, abstain="fine")

    lines = [line.strip() for line in text([*runs, passed]).splitlines() if line.strip().startswith("abstained")]

    assert lines[0] == "abstained (in 2 of 7 runs): too far"
    assert lines[-1] == "abstained: for 2 other reasons"
    assert len(lines) == 4
    assert not any("fine" in line or "\x1b" in line for line in lines)


def test_skipped_fixtures_tell_the_reason_and_are_in_no_rate() -> None:
    runs = [run("a"), run("b", outcome="skipped", reason="stale", message="fixture version 1 recorded, now 2")]

    shown = text(runs, mode="offline")

    assert "skipped: toolgate/b, jev: stale: fixture version 1 recorded, now 2" in shown
    assert "1 of 2 planned runs is in no rate: 1 skipped(stale)." in shown
    assert "1/1 100.0 %" in shown


def test_runs_without_a_result_or_interrupted_are_counted_and_resume_is_proposed() -> None:
    runs = [
        run("a"),
        run("b", outcome=None, judged=False),
        run("c", outcome="error", reason="interrupted", judged=False),
    ]
    runs[2] = attrs.evolve(runs[2], again=True)

    report = build_report(facts(), runs)

    assert (report.judged, report.again) == (1, 2)
    assert "2 of 3 planned runs are in no rate: 1 not judged(interrupted), 1 without a result." in report.notes
    assert "resume s" in [hint.command for hint in terminal.propose_next_commands(report)]
    assert "resume s --errors" not in [hint.command for hint in terminal.propose_next_commands(report)]


def test_what_ended_in_an_error_is_run_again_by_resume_errors_and_the_report_says_so() -> None:
    down: dict[str, Any] = {"outcome": "error", "decision_status": "error", "confidence": None}
    runs = [
        run("a"),
        run("b", reason="provider", **down),
        run("c", reason="timeout", **down),
        run("d", outcome="error", reason="subject", judged=False),
    ]

    hint = Hint("resume s --errors", "also reruns the runs that ended in an error (3)")
    assert hint in list(terminal.propose_next_commands(build_report(facts(), runs)))


def pair(rates: list[tuple[int, int]], k: int = 4) -> list[LabRun]:
    """Fixtures with *rates* of (jev, nimble) passes among *k*."""
    return [
        run(f"f{case}", target, number, outcome="pass" if number < passes else "fail")
        for case, both in enumerate(rates)
        for target, passes in zip(("jev", "nimble"), both, strict=True)
        for number in range(k)
    ]


def test_two_targets_are_compared_fixture_by_fixture() -> None:
    runs = pair([(0, 4), (1, 4), (2, 4), (1, 3), (0, 3), (2, 4)])

    (found,) = build_report(facts(), runs).comparisons

    assert (found.baseline, found.candidate, found.cases) == ("jev", "nimble", 6)
    assert found.like_these.diff == pytest.approx((1 + 0.75 + 0.5 + 0.5 + 0.75 + 0.5) / 6)
    assert found.verdict == "improved"
    assert found.signflip_p == pytest.approx(2 / 64)
    assert "nimble against jev on 6 fixtures, paired: +66.7 points [+45.2, +88.1], p 0.00049" in text(runs)


def test_an_interval_ends_where_no_difference_can_be() -> None:
    shown = text(pair([(0, 4), (0, 4), (0, 4), (0, 4), (4, 0)]))

    assert "paired: +60.0 points [-51.1, +100.0], p 0.21" in shown


def test_few_fixtures_have_low_power_and_no_interval_is_shown() -> None:
    shown = text(pair([(0, 4), (1, 4), (2, 4)]))

    assert ": low power (differing:" in shown
    assert "[" not in next(line for line in shown.splitlines() if line.startswith("compared:"))


def test_fixtures_that_are_not_on_both_sides_and_infrastructure_failures_are_in_no_comparison() -> None:
    runs = [
        *pair([(4, 4)] * 5),
        run("only-jev"),
        *(
            run("down", target, outcome="error" if target == "jev" else "pass", reason="provider")
            for target in ("jev", "nimble")
        ),
    ]

    (found,) = build_report(facts(), runs).comparisons

    assert (found.cases, found.left_out) == (5, 2)
    assert "1 run ended in an infrastructure failure (1 provider)" in text(runs)


def test_more_targets_are_each_compared_with_the_first_of_the_lab() -> None:
    third = attrs.evolve(JEV, id="big")
    runs = [run(f"f{number}", target) for number in range(5) for target in ("big", "jev", "nimble")]

    report = build_report(facts(targets=(NIMBLE, JEV, third)), runs)

    assert [(one.baseline, one.candidate) for one in report.comparisons] == [("nimble", "jev"), ("nimble", "big")]
    assert [row.target for row in report.capabilities[0].rows] == ["nimble", "jev", "big"]
    assert any("2 comparisons" in note for note in report.notes)


def test_several_capabilities_are_compared_one_by_one_and_together() -> None:
    runs = [
        run(f"f{n}", target, capability=name) for name in ("a", "b") for n in range(5) for target in ("jev", "nimble")
    ]

    assert [(one.capability, one.cases) for one in build_report(facts(), runs).comparisons] == [
        ("a", 5),
        ("b", 5),
        (None, 10),
    ]


def test_offline_nothing_is_sampled_timed_or_paid() -> None:
    runs = [run("a", target, outcome=word, asked=False) for target, word in (("jev", "pass"), ("nimble", "fail"))]
    runs += [run("b", target, asked=False) for target in ("jev", "nimble")]
    runs.append(run("c", "replay", asked=False))

    report = build_report(facts(mode="offline", repeat=1), runs)

    rows = report.capabilities[0].rows
    assert [row.target for row in rows] == ["replay", "jev", "nimble"]
    assert [(row.wilson, row.latency.p50_ms, row.calibration.interval, row.low_power) for row in rows] == [
        (None, None, None, False)
    ] * 3
    (found,) = report.comparisons
    assert (found.verdict, found.like_these, found.signflip_p, found.differing) == (None, None, None, ("toolgate/a",))
    shown = terminal.render_plain(report)
    assert "OFFLINE" in shown
    assert "toolgate: nimble against jev on 2 fixtures: 1 the same, 1 different (differing: toolgate/a)" in shown
    assert f"{100:.1f} % [" not in shown


def test_models_that_answered_under_another_name_are_told() -> None:
    assert any("swapped" in note for note in build_report(facts(answering=("jev-latest", "swapped")), [run()]).notes)


words = st.sampled_from(["pass", "fail", "error", "skipped", None])
lab_runs = st.lists(
    st.builds(
        run,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["jev", "nimble", "replay"]),
        st.integers(0, 3),
        outcome=words,
        capability=st.sampled_from(["gate", "route"]),
        confidence=st.none() | st.floats(0, 1),
        cost_nusd=st.none() | st.integers(0, 10**9),
        wall_ms=st.none() | st.integers(0, 10**6),
    ),
    unique_by=lambda one: (one.case, one.target, one.repetition),
    max_size=30,
)


@given(lab_runs, st.sampled_from(["live", "offline"]), st.randoms(use_true_random=False))
def test_the_same_runs_give_the_same_report_in_whatever_order_they_come(
    runs: list[LabRun], mode: str, chance: random.Random
) -> None:
    shuffled = list(runs)
    chance.shuffle(shuffled)

    report, other = build_report(facts(mode=mode), runs), build_report(facts(mode=mode), shuffled)

    assert json_form.render_json_line(report) == json_form.render_json_line(other)
    assert markdown.render_markdown(report) == markdown.render_markdown(other)
    assert terminal.render_plain(report) == terminal.render_plain(other)
    rows = [row for capability in report.capabilities for row in capability.rows]
    assert sum(row.planned for row in rows) == len(runs)
    for row in rows:
        left = sum(row.skipped.values()) + sum(row.interrupted.values()) + row.unfinished
        assert row.planned == row.judged + left
        assert row.passes <= row.judged


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", ["80", "100", "200"])
def test_on_a_terminal_of_any_width_no_figure_is_broken_and_no_text_is_markup(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    runs = [run(n, outcome="fail", verdicts=(broken(why="[red]\x1b[2J[/red]"),)) for n in ("a", "b", "c")]
    stream = Terminal()

    terminal.print_report(build_report(facts(repeat=1), runs), stream)

    shown = stream.getvalue()
    assert "[red][/red]" in shown
    assert "\x1b[2J" not in shown
    assert "0.1 s" in shown
    assert "$0.003" in shown
    assert "p95 near the maximum: jev (n=3)" in shown
    assert re.search(r"\[0\.0( %)?, [0-9.]+( %)?\]", shown)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("120", ["large 19/20 95.0 % [76.4 %, 99.1 %] 3/5 60.0 % 3/20 15.0 % 0/20 0.0 % 0.502 s 0.502 s $"]),
        ("100", ["large 19/20 95.0 % [76.4, 99.1] 3/5 3/20 0/20 0.502 s 0.502 s $0.0015184 0.057"]),
        (
            "80",
            ["large 19/20 95.0 % 3/5 3/20 0/20 0.502 s $0.0015184 0.057", "[76.4, 99.1] 60.0 % 15.0 % 0.0 % 0.502 s"],
        ),
    ],
)
def test_a_row_is_on_one_line_in_a_hundred_columns_and_on_two_in_eighty(
    monkeypatch: pytest.MonkeyPatch, columns: str, rows: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    large, small = (attrs.evolve(one, id=name) for one, name in ((JEV, "large"), (NIMBLE, "small")))

    terminal.print_report(build_report(facts(repeat=4, targets=(large, small)), sampled_runs()), stream)

    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    start = next(number for number, line in enumerate(shown) if line.lstrip().startswith("TARGET"))
    table = shown[start + 2 : next(number for number, line in enumerate(shown) if line.startswith("p95 "))]
    assert len([line for line in table if line.strip()]) == 2 * len(rows)
    assert all(len(line.rstrip()) <= int(columns) for line in table)
    for found, expected in zip(table, rows, strict=False):
        assert expected in re.sub(" +", " ", found)


def sampled_runs() -> Iterator[LabRun]:
    """Two targets of five fixtures, four times each, with figures as long as usual ones are."""
    for target in ("large", "small"):
        for number in range(20):
            abstained = {"decision_status": "abstain", "confidence": None} if number < 3 else {}
            yield run(
                f"f{number // 4}",
                target,
                number % 4,
                outcome="fail" if number == 19 else "pass",
                wall_ms=502,
                cost_nusd=94_900 if target == "large" else 0,
                local=target == "small",
                asked=number >= 4,
                **abstained,
            )


@given(
    st.text(max_size=60),
    st.recursive(st.text(max_size=20) | st.floats(0, 1), lambda inner: st.lists(inner, max_size=3)),
)
def test_whatever_was_said_is_text_on_a_terminal_and_in_markdown(said: str, value: Any) -> None:
    judgement = broken(why=said, values={said: value}, reason=said)
    error = {"cause": "bad_answer", "message": said, "node": said}
    runs = [
        run(outcome="fail", decision_status="error", error=error, verdicts=(judgement,)),
        run("other", outcome="skipped", reason="no_cassette", message=said),
    ]

    report = build_report(facts(), runs)

    shown = terminal.render_plain(report)
    assert all(letter == "\n" or letter.isprintable() or letter.isspace() for letter in shown)
    assert "\x1b" not in shown
    written = markdown.render_markdown(report)
    assert written.encode()
    assert "<" not in written
    assert written.count("\n") == markdown.render_markdown(
        build_report(facts(), [attrs.evolve(one, **plain_of(one)) for one in runs])
    ).count("\n")
    json_form.render_json_line(report)


def plain_of(one: LabRun) -> dict[str, Any]:
    """The same run, with words in the place of what was said."""
    if one.outcome == "skipped":
        return {"message": "word"}
    judgement = broken(why="word", values={"word": 1}, reason="word")
    return {"error": {"cause": "word", "message": "word", "node": "word"}, "verdicts": (judgement,)}
