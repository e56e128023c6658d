"""Running a suite's sweep: drive the engine, write the report, choose the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio

from orchestrator.cli.common import COMMON, Exit, print_json, print_notice
from orchestrator.cli.hints import print_lines
from orchestrator.cli.streams import guard_printing
from orchestrator.cli.suite import replaying, variant_reports
from orchestrator.cli.suite.records import Records
from orchestrator.cli.sweep_setup import (
    exit_code_of,
    print_audit,
    read_seconds,
    set_up_worker,
    signal_exit_code,
    store_of,
)
from orchestrator.credentials import resolve_key
from orchestrator.engine import sweep
from orchestrator.engine.worker import SweepEnd, WorkerSetup
from orchestrator.suite.kind import SuiteKind
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.plan import select_tasks
from orchestrator.suite.report import json_report
from orchestrator.suite.report.model import Report
from orchestrator.suite.report.terminal import print_report, propose_next_commands
from orchestrator.suite.report.write import write_report
from orchestrator.suite.settings import Settings
from orchestrator.world import World, hide_environment
from providers.agent.loop import BuiltinAgent
from providers.recording.replay import Replay
from providers.registry import ProviderOptions, find_provider
from providers.system.http import IDLE_TIMEOUT_S, TOKEN_IDLE_TIMEOUT_S, check_base_url
from providers.system.sandbox import Sandbox, find_bubblewrap, prove_sandbox
from store.rows import SweepRow
from store.secrets.redactor import Redactor, find_credentials
from store.sql.reader import Reader


def begin_sweep(suite: Suite, tasks: Sequence[Task], settings: Settings, world: World) -> int:
    """Plan and run a sweep; return the exit code."""
    records = _make_records(settings, world)
    setup = _set_up(suite, tasks, settings, world, records)
    command = "variants" if settings.variants else "run"
    return _conclude_sweep(setup, settings, anyio.run(partial(sweep.start_sweep, setup, command=command)), records)


def record_sweep(suite: Suite, tasks: Sequence[Task], settings: Settings, world: World) -> int:
    """Run each task once and write the cassettes; return the exit code."""
    from orchestrator.suite.recordings.taping import Taping

    records = _make_records(settings, world)
    kind, redactor = _open_kind(suite, tasks, settings, world)
    taping = Taping(suite=suite, tasks=tasks, settings=settings, redactor=redactor)
    setup = set_up_worker(taping.record_kind(kind), redactor, world, on_result=_record_printer(records))
    end = anyio.run(partial(sweep.start_sweep, setup, command="record", purpose="record"))
    code = _conclude_sweep(setup, settings, end, records)
    return code if taping.write_cassettes(setup.store, end.name, print_notice) or code != Exit.DONE else Exit.FAILED


def finish_sweep(
    suite: Suite,
    settings: Settings,
    world: World,
    row: SweepRow,
    *,
    raised: bool,
    rerun_errors: bool,
    rerun_cancelled: bool,
) -> int:
    """Finish a stored sweep; return the exit code.

    Args:
        suite: the sweep's.
        settings: as stored, with the flags of `resume` applied.
        world: clocks and environment.
        row: the sweep.
        raised: whether caps or prices of *settings* are new.
        rerun_errors: whether runs that ended in an infrastructure error run again.
        rerun_cancelled: whether cancelled runs run again.
    """
    records = _make_records(settings, world)
    tasks = select_tasks(suite, settings.tasks)
    setup = _set_up(suite, tasks, settings, world, records, rerun_errors=rerun_errors, rerun_cancelled=rerun_cancelled)
    return _conclude_sweep(setup, settings, anyio.run(partial(sweep.resume_sweep, setup, row, raised=raised)), records)


def _record_printer(records: Records | None) -> Callable[[str, int], None]:
    """Return the function that prints a run's record, or one that does nothing."""
    return records.print_run if records is not None else lambda _sweep, _position: None


def _make_records(settings: Settings, world: World) -> Records | None:
    """Make the printer of runs' records for --json; None for variants, which print reports and comparisons instead."""
    return Records(store_of(world)) if COMMON.json and not settings.variants else None


def _open_sandbox(settings: Settings, world: World) -> Sandbox | None:
    """Open the sandbox of *settings* and try it, before anything starts.

    Raises:
        SandboxUnusable: it does not work on this machine.
    """
    if settings.sandbox == "none":
        return None
    sandbox = find_bubblewrap(world.environment, store=store_of(world))
    anyio.run(partial(prove_sandbox, sandbox, world.environment))
    return sandbox


def _set_up(
    suite: Suite,
    tasks: Sequence[Task],
    settings: Settings,
    world: World,
    records: Records | None,
    *,
    rerun_errors: bool = False,
    rerun_cancelled: bool = False,
) -> WorkerSetup:
    kind, redactor = _open_kind(suite, tasks, settings, world)
    return set_up_worker(
        kind,
        redactor,
        world,
        on_result=_record_printer(records),
        rerun_errors=rerun_errors,
        rerun_cancelled=rerun_cancelled,
    )


def _open_kind(suite: Suite, tasks: Sequence[Task], settings: Settings, world: World) -> tuple[SuiteKind, Redactor]:
    """Open the provider or the recordings; return the kind of the sweep, and the redactor that knows its key.

    Raises:
        UsageError: the key, the base URL, the recordings or the sandbox cannot be used.
    """
    hide_environment()
    player: Replay | None = None
    if settings.mode == "replay":
        settings, player = replaying.open_replay(suite, tasks, settings, store_of(world))
    if settings.base_url is not None:
        check_base_url(settings.base_url)  # also in a replay: the URL is stored, and must not hold a password
    variable, value = resolve_key(settings.api_key_env, settings.provider, world.environment)
    key = [(variable, value)] if variable is not None and value is not None else []
    redactor = Redactor([*key, *find_credentials(world.environment)])
    kind = SuiteKind(
        suite=suite,
        tasks=tuple(tasks),
        settings=settings,
        subject=BuiltinAgent if player is None else player.wrap_subjects(BuiltinAgent),
        provider=player
        or find_provider(settings.provider)(
            ProviderOptions(
                model=settings.model,
                base_url=settings.base_url,
                api_key=value,
                api_key_env=variable,
                suite_root=suite.root,
                first_token_timeout_ms=settings.agent.first_token_timeout_ms,
                idle_timeout_ms=round(read_seconds(world, "EVALCTL_IDLE_SECONDS", IDLE_TIMEOUT_S) * 1000),
                token_idle_timeout_ms=round(read_seconds(world, "EVALCTL_IDLE_SECONDS", TOKEN_IDLE_TIMEOUT_S) * 1000),
                wall=world.wall,
            )
        ),
        sandbox=_open_sandbox(settings, world),
    )
    return kind, redactor


def _conclude_sweep(setup: WorkerSetup, settings: Settings, end: SweepEnd, records: Records | None) -> int:
    """Report the end of the sweep; return the exit code."""
    return exit_code_of(end, partial(_report_sweep, setup, settings, end, records))


def _report_sweep(setup: WorkerSetup, settings: Settings, end: SweepEnd, records: Records | None) -> int:
    """Report from the stored rows, and choose the exit code."""
    with Reader(setup.store) as reader:
        row = reader.find_sweep(end.name)
        directory = settings.report_directory(setup.store, row.name)
        if settings.variants:
            report = variant_reports.report_variants(
                reader, row, settings.list_variant_ids(), directory, setup.world.environment
            )
        else:
            report = _print_report(reader, row, directory, records, setup.world.environment)
        balanced = print_audit(reader, row, setup.world)
    code = _exit_code(end, report)
    return code if balanced or code != Exit.DONE else Exit.FAILED


def _print_report(
    reader: Reader, row: SweepRow, directory: Path, records: Records | None, environment: Mapping[str, str]
) -> Report:
    """Write the report and print it; with *records* also print the records that are still missing."""
    report = write_report(reader, row, directory)
    if records is not None:
        records.print_rest(reader, row)
        print_json(json_report.report_to_json(report), compact=True)
    else:
        with guard_printing():
            print_report(report, sys.stdout, directory=directory, color=COMMON.color)
        print_lines(propose_next_commands(report), environment)
    return report


def _exit_code(end: SweepEnd, report: Report) -> int:
    if end.signal is not None:
        return signal_exit_code(end.signal)
    stopped_early = end.remaining > 0 or end.stopped is not None or report.summary.skipped.get("cancelled", 0) > 0
    if "replay_divergence" in report.summary.errored:
        return Exit.DIVERGED
    unplayed = report.replay and report.summary.skipped.get("no_cassette") == report.summary.planned
    return Exit.FAILED if stopped_early or unplayed or report.summary.errored else Exit.DONE
