from __future__ import annotations

import html
import io
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.reports.hints import Hint
from orchestrator.reports.phrases import format_error
from orchestrator.suite.report import json_report, markdown, terminal, wording
from orchestrator.suite.report.build import build_report
from orchestrator.suite.report.model import Report
from orchestrator.suite.report.write import write_report
from orchestrator.text import MAX_CELL_CHARACTERS, escape_markdown, make_harmless, make_printable, one_line
from store.errors import UsageError
from store.rows import Verdict
from store.sql.reader import Reader
from tests.orchestrator.reports import stored

HOSTILE = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script> | `x` [a](javascript:b) \u202egnp \ud835 \x00\r\n# head\t!"

FAIL = {
    "outcome": "fail",
    "verdicts": (
        Verdict(verifier="check", kind="command", verdict="fail", detail={"tampered": ["check.py"]}),
        Verdict(verifier="scope", kind="tree-diff-within", verdict="pass"),
    ),
}
PASS = {
    "verdicts": (
        Verdict(verifier="check", kind="command", verdict="pass"),
        Verdict(verifier="scope", kind="tree-diff-within", verdict="pass"),
    )
}
ERROR = {
    "outcome": "error",
    "reason": "provider",
    "detail": {"message": f"no answer {HOSTILE}", "spent": {"calls": 6, "tokens": 0}},
    "input_tokens": None,
    "output_tokens": None,
}
BUDGET = {"outcome": "budget_exceeded", "reason": "maxTurns", "detail": {"incidents": {"approval_denied": 2}}}
SKIPPED = {"outcome": "skipped", "reason": "budget", "again": True, "input_tokens": None, "output_tokens": None}

CASES = {
    "b-flaky": [PASS, PASS, PASS, FAIL, BUDGET],
    "a-solved": [PASS] * 5,
    "c-unsolved": [FAIL] * 5,
    "d-odd": [PASS, ERROR, ERROR, SKIPPED, None],
    "e-down": [ERROR] * 5,
}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    """Writes a store and reads it."""
    readers = []

    def made(outcomes: dict[str, Any], **planned: Any) -> Reader:
        k = max(len(endings) for endings in outcomes.values())
        path = stored.write(tmp_path / "runs.db", stored.sweep(list(outcomes), k, **planned), outcomes)
        readers.append(Reader(path))
        return readers[-1]

    yield made
    for reader in readers:
        reader.close()


def report_of(reader: Reader) -> Report:
    return build_report(reader, reader.find_sweep("last"))


def test_rates_are_over_judged_runs_and_what_is_left_out_is_counted_by_cause(make: Callable[..., Reader]) -> None:
    found = json_report.report_to_json(report_of(make(CASES)))
    tasks = {task["id"]: task for task in found["tasks"]}
    assert list(tasks) == sorted(CASES)
    flaky = tasks["b-flaky"]
    assert (flaky["passes"], flaky["judged"], flaky["successRate"]) == (3, 5, 0.6)
    assert flaky["wilson"] == [pytest.approx(0.2307242812760128), pytest.approx(0.882379225767352)]
    assert (flaky["passAtK"], flaky["passHatK"], flaky["reliability"]) == (True, False, "flaky")
    assert flaky["failedBy"] == {"verifier": 1}
    assert flaky["budgetExceededBy"] == {"maxTurns": 1}
    assert not flaky["lowPower"]
    assert tasks["a-solved"]["reliability"] == "solved"
    assert tasks["c-unsolved"]["reliability"] == "unsolved"
    odd = tasks["d-odd"]
    assert (odd["planned"], odd["judged"], odd["successRate"], odd["lowPower"]) == (5, 1, 1.0, True)
    assert odd["erroredBy"] == {"provider": 2}
    assert odd["skippedBy"] == {"budget": 1}
    assert (odd["unfinished"], odd["again"]) == (1, 1)
    down = tasks["e-down"]
    assert (down["judged"], down["successRate"], down["wilson"], down["reliability"]) == (0, None, None, None)
    summary = found["summary"]
    assert (summary["passes"], summary["judged"], summary["planned"]) == (9, 16, 25)
    assert summary["coverage"] == 16 / 25
    assert summary["bounds"] == [9 / 25, 18 / 25]
    assert summary["erroredBy"] == {"provider": 7}
    assert summary["reliability"] == {"flaky": 1, "none": 1, "solved": 2, "unsolved": 1}
    assert summary["incidents"] == {"approval_denied": 2}


def test_the_notes_say_what_is_left_out_low_power_and_tampering(make: Callable[..., Reader]) -> None:
    notes = "\n".join(report_of(make(CASES)).notes)
    assert "9 of 25 planned runs are in no rate: 7 error(provider), 1 skipped(budget), 1 unfinished." in notes
    assert "low power: fewer than 5 judged runs for d-odd, e-down" in notes
    assert "tampered: runs of b-flaky, c-unsolved changed a check file" in notes


def test_conditions_name_the_measurement_and_hold_no_path_or_credential(make: Callable[..., Reader]) -> None:
    conditions = report_of(make(CASES)).conditions
    assert conditions == {
        "suiteId": "shapes",
        "suiteVersion": "1.2.0",
        "harnessVersion": "0.1.0",
        "configHash": "c0ffee",
        "provider": "scripted",
        "endpoint": "https://models.example:8443",
        "model": "m-1",
        "modelsAnswering": ["m-1-2026"],
        "mode": "live",
        "k": 5,
        "seed": 7,
        "plannedAt": "2020-01-01T00:00:00.000Z",
        "purpose": "sweep",
        "concurrency": 4,
        "grants": {"effects": ["process", "write"], "readOnly": False, "suiteFull": False},
        "caps": {"maxCalls": 100},
        "git": {"commit": "abc", "dirty": False},
    }


def test_measured_figures_are_over_all_judged_runs_failures_included(make: Callable[..., Reader]) -> None:
    found = json_report.report_to_json(report_of(make({"a": CASES["b-flaky"]})))["tasks"][0]["measured"]
    assert found["wallMs"] == {"median": 1200.0, "variance": 25000.0}
    assert (found["inputTokens"], found["outputTokens"], found["totalTokens"]) == (500, 100, 600)
    assert found["perSuccess"] == {"wallMs": 2000.0, "tokens": 200.0}


def test_tokens_are_omitted_not_guessed_where_one_run_did_not_report_them(make: Callable[..., Reader]) -> None:
    silent = {**PASS, "input_tokens": None, "output_tokens": None}
    report = report_of(make({"a": [PASS, PASS, PASS, PASS, silent]}, settings={"input_rate": "1", "output_rate": "2"}))
    found = json_report.report_to_json(report)["tasks"][0]
    assert "totalTokens" not in found["measured"]
    assert found["measured"]["usageRuns"] == 4
    assert "tokens" not in found["measured"]["perSuccess"]
    assert "estimated" not in found
    assert any("usage was not reported in every turn for a" in note for note in report.notes)


def test_an_estimate_exists_only_with_both_rates(make: Callable[..., Reader]) -> None:
    report = report_of(make({"a": [PASS] * 5}, settings={"input_rate": "0.1", "output_rate": "2"}))
    found = json_report.report_to_json(report)
    assert found["summary"]["estimated"] == {"costUsd": (500 * 0.1 + 100 * 2) / 1e6}
    assert "## Estimated" in markdown.render_markdown(report)


def test_without_rates_nothing_is_estimated(make: Callable[..., Reader]) -> None:
    report = report_of(make({"a": [PASS] * 5}))
    assert "estimated" not in json_report.render_json(report).lower()
    assert "estimated" not in markdown.render_markdown(report).lower()


def test_cached_input_is_pooled_over_the_runs_that_reported_it_fully(make: Callable[..., Reader]) -> None:
    full = {**PASS, "cached_tokens": 40}
    partial = {**PASS, "cached_tokens": 90, "detail": {"cachedPartial": True}}
    found = json_report.report_to_json(report_of(make({"a": [full, full, partial, PASS, PASS]})))
    assert found["summary"]["cachedInput"] == {
        "tokens": 80,
        "inputTokens": 200,
        "ratio": 0.4,
        "runsReporting": 2,
        "runsJudged": 5,
    }
    assert (found["tasks"][0]["cachedInputRatio"], found["tasks"][0]["cachedInputRuns"]) == (0.4, 2)


def test_unreported_cached_input_is_absent_and_said_to_be(make: Callable[..., Reader]) -> None:
    report = report_of(make({"a": [PASS] * 5}))
    assert "cachedInput" not in json_report.render_json(report)
    assert "not reported" in markdown.render_markdown(report)


def compacted(**tokens: Any) -> dict[str, Any]:
    return {**PASS, "detail": {"compaction": {"calls": 2, **tokens}, "incidents": {"compaction": 2}}}


def test_compaction_is_counted_apart_from_the_tokens_of_the_turns(make: Callable[..., Reader]) -> None:
    whole = compacted(input=900, output=30)
    report = report_of(make({"a": [whole, whole, PASS, PASS, PASS], "b": [PASS] * 5}))
    found = json_report.report_to_json(report)
    apart = {"runs": 2, "calls": 4, "inputTokens": 1800, "outputTokens": 60}
    assert found["tasks"][0]["measured"]["compaction"] == apart
    assert "compaction" not in found["tasks"][1]["measured"]
    assert found["summary"]["measured"]["compaction"] == apart
    assert found["summary"]["measured"]["totalTokens"] == 10 * 120
    assert found["summary"]["incidents"] == {"compaction": 4}
    assert any("compacted in 2 of 10 judged runs, of a:" in note for note in report.notes)
    page = markdown.render_markdown(report)
    assert "| a | 2 of 5 | 4 | 1,800 | 60 |" in page
    assert "| b | 0" not in page


def test_tokens_of_compaction_are_omitted_where_one_summary_had_none(make: Callable[..., Reader]) -> None:
    report = report_of(make({"a": [compacted(input=900, output=30), compacted(), PASS, PASS, PASS]}))
    assert json_report.report_to_json(report)["summary"]["measured"]["compaction"] == {"runs": 2, "calls": 4}
    assert "| a | 2 of 5 | 4 | n/a | n/a |" in markdown.render_markdown(report)


def test_a_run_names_its_compactions(make: Callable[..., Reader], tmp_path: Path) -> None:
    reader = make({"a": [compacted(input=900, output=30), PASS]})
    write_report(reader, reader.find_sweep("last"), tmp_path / "out")
    records = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    measured = records[0]["measured"]
    assert [measured[f"compaction{name}"] for name in ("Calls", "InputTokens", "OutputTokens")] == [2, 900, 30]
    assert not any(name.startswith("compaction") for name in records[1]["measured"])


def test_a_partly_reported_cache_is_marked_and_not_counted(make: Callable[..., Reader], tmp_path: Path) -> None:
    reader = make({"a": [{**PASS, "cached_tokens": 90, "detail": {"cachedPartial": True}}]})
    write_report(reader, reader.find_sweep("last"), tmp_path / "out")
    record = json.loads((tmp_path / "out" / "runs.jsonl").read_text())
    assert record["cachedPartial"] is True
    assert "cachedInputTokens" not in record["measured"]


def test_an_estimate_for_some_tasks_is_shown_and_the_one_for_all_is_not_guessed(make: Callable[..., Reader]) -> None:
    silent = {**PASS, "input_tokens": None, "output_tokens": None}
    rates = {"input_rate": "1", "output_rate": "2"}
    report = report_of(make({"a": [PASS] * 5, "b": [silent] * 5}, settings=rates))
    found = json_report.report_to_json(report)
    assert found["tasks"][0]["estimated"] == {"costUsd": (500 + 200) / 1e6}
    assert "estimated" not in found["tasks"][1]
    assert "estimated" not in found["summary"]
    page = markdown.render_markdown(report)
    assert "| a | 5 | 0.0007 USD |" in page
    assert "| all | 10 | n/a |" in page
    assert any("for b; their token figures are omitted, and so are estimates" in note for note in report.notes)


def test_a_report_says_first_that_figures_need_their_conditions(make: Callable[..., Reader]) -> None:
    page = markdown.render_markdown(report_of(make({"a": [PASS]})))
    assert page.index(wording.PRINCIPLE) < page.index("## Conditions") < page.index("## Results")


def test_conditions_name_a_known_window_and_an_opened_network(make: Callable[..., Reader]) -> None:
    conditions = report_of(make({"a": [PASS]}, settings={"context_window": 8192, "fetch_private": True})).conditions
    assert (conditions["contextWindow"], conditions["fetchPrivate"]) == (8192, True)


def test_replay_says_what_it_does_not_measure_and_has_no_interval(make: Callable[..., Reader]) -> None:
    report = report_of(make({"a": [PASS]}, mode="replay"))
    found = json_report.report_to_json(report)
    assert found["tasks"][0]["wilson"] is None
    assert not found["tasks"][0]["lowPower"]
    assert "not the model" in report.notes[0]
    assert "REPLAY" in terminal.render_plain(report)


def test_the_ledger_counts_every_request_apart_from_the_measured_tokens(make: Callable[..., Reader]) -> None:
    found = json_report.report_to_json(report_of(make({"a": [PASS, PASS]})))["summary"]
    assert found["ledger"] == {"calls": 6, "tokens": 300, "nusd": 0}
    assert found["measured"]["totalTokens"] == 240


def test_the_same_rows_give_the_same_bytes(make: Callable[..., Reader], tmp_path: Path) -> None:
    reader = make(CASES)
    for place in ("one", "two"):
        write_report(reader, reader.find_sweep("last"), tmp_path / place)
    for name in ("report.json", "report.md", "runs.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_three_files_are_written_and_nothing_else(make: Callable[..., Reader], tmp_path: Path) -> None:
    reader = make(CASES)
    directory = tmp_path / "eval" / "deep"
    write_report(reader, reader.find_sweep("last"), directory)
    assert sorted(file.name for file in directory.iterdir()) == ["report.json", "report.md", "runs.jsonl"]
    found = json.loads((directory / "report.json").read_text("ascii"))
    assert (found["schemaVersion"], found["schema"], found["runId"]) == (1, "evalctl.report/1", stored.NAME)


def test_runs_jsonl_has_one_record_per_run_with_a_result_in_the_stored_order(
    make: Callable[..., Reader], tmp_path: Path
) -> None:
    reader = make(CASES)
    write_report(reader, reader.find_sweep("last"), tmp_path)
    records = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text("ascii").splitlines()]
    assert len(records) == 24
    assert [record["position"] for record in records] == sorted(record["position"] for record in records)
    flaky = [record for record in records if record["taskId"] == "b-flaky"]
    assert [record["status"] for record in flaky] == ["pass", "pass", "pass", "fail", "budget_exceeded"]
    assert [record["seed"] for record in flaky] == [7, 8, 9, 10, 11]
    assert flaky[3]["verifiers"][0] == {
        "id": "check",
        "kind": "command",
        "verdict": "fail",
        "detail": {"tampered": ["check.py"]},
    }
    assert flaky[4]["incidents"] == {"approval_denied": 2}
    error = next(record for record in records if record["status"] == "error")
    assert error["error"]["cause"] == "provider"
    assert error["error"]["message"].endswith(HOSTILE)
    assert "inputTokens" not in error["measured"]


def test_a_place_that_cannot_be_written_to_is_a_usage_error_that_keeps_the_results(
    make: Callable[..., Reader], tmp_path: Path
) -> None:
    reader = make({"a": [PASS]})
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"evalctl show {stored.NAME}"):
        write_report(reader, reader.find_sweep("last"), tmp_path / "file")


def test_a_report_that_fails_half_way_leaves_the_old_one(make: Callable[..., Reader], tmp_path: Path) -> None:
    reader = make({"a": [PASS]})
    directory = tmp_path / "out"
    write_report(reader, reader.find_sweep("last"), directory)
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    reader.close()
    with pytest.raises(Exception, match="closed"):
        write_report(reader, stored.sweep_row(), directory)
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before


def test_hostile_text_stays_text_in_markdown(make: Callable[..., Reader]) -> None:
    text = markdown.render_markdown(report_of(make(CASES)))
    assert "<script" not in text
    assert all(letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs") for letter in text)
    rows = [line for line in text.splitlines() if "no answer" in line]
    assert len(rows) == 2
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)
    assert not re.search(r"(?<!\\)\]\(", text)


def test_a_terminal_gets_no_control_characters_of_others(make: Callable[..., Reader]) -> None:
    text = terminal.render_plain(report_of(make(CASES)))
    assert all(letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs") for letter in text)
    assert "60.0 % [23.1 %, 88.2 %]" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_table_is_drawn_with_the_same_figures(
    make: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    screen = Terminal()
    terminal.print_report(report_of(make(CASES)), screen)
    drawn = screen.getvalue()
    assert "60.0 % [23.1 %, 88.2 %]" in drawn
    assert "\x1b]0;" not in drawn
    assert "\x1b[2J" not in drawn


@pytest.mark.parametrize("columns", [80, 100])
def test_on_a_narrow_terminal_columns_go_before_figures_break(
    make: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Terminal()
    fail = {"outcome": "fail", "verdicts": (Verdict(verifier="check", kind="command", verdict="fail"),)}
    terminal.print_report(report_of(make({"sort-versions": [PASS, PASS, PASS, fail, fail]})), screen)
    drawn = screen.getvalue()
    assert "60.0 % [23.1 %, 88.2 %]" in drawn
    assert "RELIABILITY" in drawn
    assert "fail(verifier)" in drawn
    assert "EVERY" not in drawn
    assert all(len(line) <= columns for line in drawn.splitlines() if line.startswith(" "))


def test_a_report_proposes_the_commands_to_run_next(make: Callable[..., Reader]) -> None:
    hints = list(terminal.propose_next_commands(report_of(make(CASES))))
    assert hints[0] == Hint(f"resume {stored.NAME}", "runs the 2 that are left; raise the caps that are spent")


@pytest.mark.parametrize(("reason", "told"), [("budget", True), ("provider_blocked", False)])
def test_a_higher_cap_is_spoken_of_only_where_one_is_spent(
    make: Callable[..., Reader], reason: str, told: bool
) -> None:
    skipped = {"outcome": "skipped", "reason": reason, "again": True}
    hint = next(terminal.propose_next_commands(report_of(make({"a": [PASS, skipped]}))))
    assert hint.remark.startswith("runs the 1 that are left")
    assert ("raise the caps" in hint.remark) == told


@pytest.mark.parametrize(("cause", "told"), [("auth", True), ("interrupted", False), ("replay_divergence", False)])
def test_running_errors_again_is_proposed_where_it_may_help(
    make: Callable[..., Reader], cause: str, told: bool
) -> None:
    error = {"outcome": "error", "reason": cause, "detail": {"message": "no"}, "again": cause == "interrupted"}
    hint = Hint(f"resume {stored.NAME} --errors", "also reruns the runs that ended in an error (1)")
    assert (hint in list(terminal.propose_next_commands(report_of(make({"a": [PASS, error]}))))) == told


def test_away_from_a_terminal_nothing_is_drawn(make: Callable[..., Reader]) -> None:
    page = io.StringIO()
    terminal.print_report(report_of(make({"a": [PASS]})), page)
    assert "\x1b" not in page.getvalue()


@given(st.text())
def test_harmless_text_has_no_invisible_character_but_lines_and_tabs(text: str) -> None:
    cleaned = make_harmless(text)
    assert all(c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in cleaned)
    assert make_harmless(cleaned) == cleaned
    assert "\n" not in one_line(text)
    assert len(one_line(text, 20)) <= 20


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain größe\t1", "plain größe\t1"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("a\x1b\x1b[31m[2Jb", "a\\x1b[2Jb"),
        ("\x9b2Jx", "x"),
        ("\x1b]0;never closed", ""),
        ("a\rb\r\nc", "a\\x0db\nc"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud835", "\\ud835"),
        ("\x00", "\\x00"),
    ],
)
def test_control_sequences_go_and_lone_controls_are_shown(text: str, shown: str) -> None:
    assert make_harmless(text) == shown


DIVERGENCE = 'task a, call 2: tools[edit].description\n  recorded: "3 left"\n  asked:    "4 left"'


def test_a_divergence_keeps_its_lines_and_any_other_message_is_one() -> None:
    assert format_error("replay_divergence", DIVERGENCE) == DIVERGENCE
    assert format_error("provider", "busy\nerror(provider) in b: made up") == "busy error(provider) in b: made up"
    assert len(format_error("replay_divergence", "x" * 9000)) == 500


@given(st.text(max_size=200))
def test_no_line_of_a_divergence_but_the_first_begins_at_the_left(text: str) -> None:
    first, *rest = format_error("replay_divergence", f"task a\n{text}\nend").split("\n")
    assert first == "task a"
    assert all(line.startswith("  ") for line in rest)
    assert all(make_harmless(line) == line for line in rest)


@pytest.mark.parametrize("address", ["https://evil.example", "www.evil.example", "WWW.evil.example", "me@evil.example"])
def test_a_bare_address_is_no_link(address: str) -> None:
    assert escape_markdown(address) != address
    assert escape_markdown(address).replace("\\", "") == address


@given(st.text(max_size=200))
def test_escaped_markdown_holds_no_live_markup(text: str) -> None:
    shown = escape_markdown(text)
    assert "<" not in shown
    assert ">" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*_\[\]#~$]", re.sub(r"\\.", "", shown))
    assert html.unescape(re.sub(r"\\(.)", r"\1", shown)) == one_line(text, MAX_CELL_CHARACTERS)


def test_a_stream_that_knows_few_letters_gets_escapes() -> None:
    assert make_printable("größe …", "ascii") == "gr\\xf6\\xdfe \\u2026"
    assert make_printable("größe", None) == "größe"
