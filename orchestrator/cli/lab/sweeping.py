"""Running a lab's sweep: drive the engine, write the run directory, choose the exit code."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import attrs

from orchestrator.cli.common import COMMON, Exit, print_data, print_error, print_notice
from orchestrator.cli.hints import print_lines
from orchestrator.cli.streams import guard_printing
from orchestrator.cli.sweep_setup import exit_code_of, print_audit, set_up_worker, signal_exit_code
from orchestrator.engine import sweep
from orchestrator.engine.worker import SweepEnd, WorkerSetup
from orchestrator.lab.kind import LabKind
from store.errors import UsageError
from store.secrets.redactor import Redactor, find_credentials
from store.sql.reader import Reader

if TYPE_CHECKING:
    from orchestrator.engine.kind import Terms
    from orchestrator.lab.recordings.recording import Recording
    from orchestrator.lab.report.model import LabReport
    from orchestrator.world import World
    from store.rows import SweepRow

PURPOSES = {"offline": "ci", "record": "record", "live": "sweep"}
"""By verb of `lab`, the stored purpose; only `sweep` enters the history."""


@attrs.frozen(kw_only=True)
class LabSweep:
    """One lab's sweep, about to be started or resumed."""

    verb: str
    """`offline`, `record` or `live`."""
    setup: WorkerSetup
    run_directories: str
    """Parent of run directories, unless `--out` names one."""
    recording: Recording | None = None

    def start_sweep(self) -> int:
        """Plan and run the sweep; return the exit code."""
        self._prepare_directory(Path(self.setup.terms.out or self.run_directories))
        end = anyio.run(partial(sweep.start_sweep, self.setup, command=f"lab {self.verb}", purpose=PURPOSES[self.verb]))
        return self._conclude_sweep(end)

    def resume_sweep(self, row: SweepRow, *, raised: bool) -> int:
        """Finish the stored sweep *row*; return the exit code."""
        self._prepare_directory(directory_of(self.setup.terms, row))
        return self._conclude_sweep(anyio.run(partial(sweep.resume_sweep, self.setup, row, raised=raised)))

    def _prepare_directory(self, directory: Path) -> None:
        """Create the run directory before the first call, and load the HTTP client so that this call is not slower.

        Raises:
            UsageError: the directory cannot be created.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{directory}: the run directory cannot be created: {error.strerror or error}",
                "Name another directory with --out.",
            ) from error
        if self.verb != "offline":
            from providers.system.http import preload_http_client

            preload_http_client()

    def _conclude_sweep(self, end: SweepEnd) -> int:
        """Report the end of the sweep; return the exit code."""
        return exit_code_of(end, partial(self._report_sweep, end))

    def _report_sweep(self, end: SweepEnd) -> int:
        from orchestrator.lab.report.write import write_run_directory

        setup, recorded = self.setup, True
        with Reader(setup.store) as reader:
            row = reader.find_sweep(end.name)
            if self.recording is not None:
                recorded = self.recording.report_written(print_notice, print_error)
            directory = directory_of(setup.terms, row)
            report = write_run_directory(reader, row, directory)
            _print_report(report, directory, setup.world)
            balanced = self.verb == "offline" or print_audit(reader, row, setup.world)
        code = _offline_code(end, report) if self.verb == "offline" else _live_code(end, report)
        return code if (balanced and recorded) or code != Exit.DONE else Exit.FAILED


def set_up_sweep(
    verb: str,
    kind: LabKind,
    world: World,
    *,
    redactor: Redactor | None = None,
    recording: Recording | None = None,
    rerun_errors: bool = False,
    rerun_cancelled: bool = False,
) -> LabSweep:
    """Set up this process as a worker on a lab's sweep.

    Args:
        verb: `offline`, `record` or `live`.
        kind: the runs.
        world: clocks and environment.
        redactor: removes secrets before anything is stored or logged; None: knows the environment's credentials alone.
        recording: records the answers; None: they are not recorded.
        rerun_errors: whether runs that ended in an infrastructure error run again.
        rerun_cancelled: whether cancelled runs run again.
    """
    redactor = redactor or Redactor(find_credentials(world.environment))
    if recording is not None:
        kind = attrs.evolve(kind, on_ending=recording.record_ending)
    setup = set_up_worker(kind, redactor, world, rerun_errors=rerun_errors, rerun_cancelled=rerun_cancelled)
    return LabSweep(verb=verb, setup=setup, run_directories=kind.stored_selection["runs"], recording=recording)


def directory_of(terms: Terms, row: SweepRow) -> Path:
    """Return the directory of the sweep's manifest, results and report."""
    if terms.out is not None:
        return Path(terms.out)
    return Path(row.conditions["lab"]["runs"]) / row.name


def _print_report(report: LabReport, directory: Path, world: World) -> None:
    import sys

    from orchestrator.lab.report import json_form, terminal

    if COMMON.json:
        print_data(json_form.render_json_line(report))
        return
    with guard_printing():
        terminal.print_report(report, sys.stdout, directory=directory, color=COMMON.color)
    print_lines(terminal.propose_next_commands(report), world.environment)


def _offline_code(end: SweepEnd, report: LabReport) -> int:
    """Return 0 only if at least one run was judged and all passed."""
    if end.signal is not None:
        return signal_exit_code(end.signal)
    if not report.judged:
        print_error("every run was skipped: nothing was tested")
        return Exit.FAILED
    stopped = end.remaining > 0 or end.stopped is not None
    return Exit.FAILED if stopped or report.failed or _has_errors(report) else Exit.DONE


def _live_code(end: SweepEnd, report: LabReport) -> int:
    """Return 0 if the sweep completed without errors, whatever its runs measured."""
    if end.signal is not None:
        return signal_exit_code(end.signal)
    if end.stopped is not None or end.remaining or report.again:
        return Exit.FAILED
    return Exit.FAILED if _has_errors(report) or _has_cancelled(report) else Exit.DONE


def _has_errors(report: LabReport) -> bool:
    rows = [row for capability in report.capabilities for row in capability.rows]
    return any(row.infrastructure or row.interrupted for row in rows)


def _has_cancelled(report: LabReport) -> bool:
    return any("cancelled" in row.skipped for capability in report.capabilities for row in capability.rows)
