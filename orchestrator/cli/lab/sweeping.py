"""What the verbs that run a lab share once they know what to do: run the loop, write the run directory, choose the exit
code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from orchestrator.engine.kind import PricedProvider, Terms
    from orchestrator.lab.cells import Cell
    from orchestrator.lab.model import Lab
    from orchestrator.lab.recordings.recording import Recording
    from orchestrator.lab.report.model import LabReport
    from orchestrator.lab.settings import LabSettings
    from orchestrator.world import World
    from store.events import Json
    from store.rows import SweepRow

PURPOSES = {"offline": "ci", "record": "record", "live": "sweep"}
"""By verb; what is no sweep enters no history."""


@attrs.frozen(kw_only=True)
class LabSweep:
    """One lab's sweep, about to be started or resumed."""

    verb: str
    """`offline`, `record` or `live`."""
    setup: WorkerSetup
    runs: str
    """Where run directories are, unless `--out` names one."""
    recording: Recording | None = None

    def start_sweep(self) -> int:
        """Plan and run it; the exit code."""
        self._prepare_directory(Path(self.setup.terms.out or self.runs))
        end = anyio.run(partial(sweep.start_sweep, self.setup, command=f"lab {self.verb}", purpose=PURPOSES[self.verb]))
        return self._conclude_sweep(end)

    def resume_sweep(self, row: SweepRow, *, raised: bool) -> int:
        """Finish the stored sweep *row*; the exit code."""
        self._prepare_directory(directory_of(self.setup.terms, row))
        return self._conclude_sweep(anyio.run(partial(sweep.resume_sweep, self.setup, row, raised=raised)))

    def _prepare_directory(self, directory: Path) -> None:
        """Before anybody is asked: what is asked for has a place, and the first call is as quick as the others.

        Raises:
            UsageError: nothing can be written there.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{directory}: the run directory cannot be made: {error.strerror or error}",
                "Name another place with --out.",
            ) from error
        if self.verb != "offline":
            from providers.system.http import preload_http_client

            preload_http_client()

    def _conclude_sweep(self, end: SweepEnd) -> int:
        """Report; the exit code."""
        return exit_code_of(end, partial(self._report_sweep, end))

    def _report_sweep(self, end: SweepEnd) -> int:
        from orchestrator.lab.report.write import write_run_directory

        setup, whole = self.setup, True
        with Reader(setup.store) as reader:
            row = reader.find_sweep(end.name)
            if self.recording is not None:
                whole = self.recording.report_written(print_notice, print_error)
            directory = directory_of(setup.terms, row)
            report = write_run_directory(reader, row, directory)
            _print_report(report, directory, setup.world)
            balanced = self.verb == "offline" or print_audit(reader, row, setup.world)
        code = _offline_code(end, report) if self.verb == "offline" else _live_code(end, report)
        return code if (balanced and whole) or code != Exit.DONE else Exit.FAILED


def lab_sweep(
    verb: str,
    lab: Lab,
    cells: Sequence[Cell],
    settings: LabSettings,
    world: World,
    *,
    providers: Mapping[str, PricedProvider],
    redactor: Redactor | None = None,
    chosen: Mapping[str, Json],
    recording: Recording | None = None,
    errors: bool = False,
    cancelled: bool = False,
) -> LabSweep:
    """A sweep over *cells*, with what the command line gives it to work in.

    Args:
        verb: of `lab`.
        lab: the lab.
        cells: its plan's.
        settings: of the sweep.
        world: clocks and environment.
        providers: those that the cells may call.
        redactor: takes out of what is stored what is secret; None: knows the environment's credentials alone.
        chosen: what is stored beside the lab, for `resume`.
        recording: takes down what is answered.
        errors: whether runs that had ended in an infrastructural error run again.
        cancelled: the same for cancelled ones.
    """
    redactor = redactor or Redactor(find_credentials(world.environment))
    kind = LabKind(
        lab=lab,
        cells=tuple(cells),
        settings=settings,
        providers=providers,
        stored_selection=chosen,
        on_ending=recording.record_ending if recording is not None else lambda _cell, _ending: None,
    )
    setup = set_up_worker(kind, redactor, world, errors=errors, cancelled=cancelled)
    return LabSweep(verb=verb, setup=setup, runs=chosen["runs"], recording=recording)


def directory_of(terms: Terms, row: SweepRow) -> Path:
    """Where the sweep's manifest, results and report are."""
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
    print_lines(terminal.propose_next(report), world.environment)


def _offline_code(end: SweepEnd, report: LabReport) -> int:
    """0 only where something ran, and all of it passed."""
    if end.signal is not None:
        return signal_exit_code(end.signal)
    if not report.judged:
        print_error("every run was skipped: nothing was tested")
        return Exit.FAILED
    stopped = end.remaining > 0 or end.stopped is not None
    return Exit.FAILED if stopped or report.failed or _has_errors(report) else Exit.DONE


def _live_code(end: SweepEnd, report: LabReport) -> int:
    """0 for a measurement that was completed, whatever it measured."""
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
