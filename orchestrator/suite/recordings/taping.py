"""Recording of a sweep with one run per task: wraps the provider in a recorder, then writes a cassette per task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from orchestrator.measured import config_hash
from orchestrator.suite.effects import make_policy
from orchestrator.suite.kind import SuiteKind
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.recordings.cassettes import (
    REVIEW_NOTICE,
    find_cassette_directory,
    make_rules,
    refuse_installed,
    write_cassettes,
)
from orchestrator.suite.settings import Settings
from orchestrator.text import format_count
from providers.recording.cassette import FILE_SUFFIX, Cassette, CassetteHeader
from providers.recording.recorder import Recorder, RunRecording
from store.rows import RunRecord
from store.secrets.redactor import Redactor
from store.sql.reader import Reader


class Taping:
    """Records one sweep of a suite to cassette files.

    Raises:
        UsageError: the directory of the cassettes is part of an installed package.
    """

    def __init__(self, *, suite: Suite, tasks: Sequence[Task], settings: Settings, redactor: Redactor) -> None:
        self._suite = suite
        self._tasks = {task.id: task for task in tasks}
        self._settings = settings
        self._redactor = redactor
        self._directory = find_cassette_directory(suite, settings.cassette_dir)
        self._recorder: Recorder | None = None
        refuse_installed(self._directory)

    def record_kind(self, kind: SuiteKind) -> SuiteKind:
        """Return the kind with a recorder around its provider and its subjects."""
        self._recorder = Recorder(kind.provider, lambda task: make_rules(self._tasks[task]))
        return attrs.evolve(kind, provider=self._recorder, subject=self._recorder.wrap_subjects(kind.subject))

    def write_cassettes(self, store: Path, sweep: str, say: Callable[[str], None]) -> bool:
        """Write a cassette for every judged and completely recorded run; return whether every task has one.

        Raises:
            UsageError: a cassette is refused. No file is written then.
        """
        cassettes: dict[Path, Cassette] = {}
        remarks: list[str] = []
        with Reader(store) as reader:
            row = reader.find_sweep(sweep)
            cases = {cell.id: cell.case_id for cell in reader.list_cells(row.id)}
            for run in reader.iterate_runs(row.id):
                task = self._tasks[cases[run.cell_id]]
                tape = self._find_tape(sweep, run)
                if tape is None or not tape.whole or not run.judged:
                    ended = f"{run.outcome}({run.reason})" if run.reason else run.outcome
                    remarks.append(f"task {task.id}: no cassette: its run ended as {ended}")
                    continue
                cassettes[self._directory / f"{task.id}{FILE_SUFFIX}"] = self._make_cassette(task, tape)
                if run.outcome != "pass":
                    remarks.append(f"warning: task {task.id} did not pass, and its replay will not either")
        write_cassettes(cassettes, self._redactor)
        for remark in remarks:
            say(remark)
        if cassettes:
            say(f"{format_count(len(cassettes), 'cassette')} written to {self._directory}. {REVIEW_NOTICE}")
        return len(cassettes) == len(self._tasks)

    def _find_tape(self, sweep: str, run: RunRecord) -> RunRecording | None:
        assert self._recorder is not None, "record_kind comes before write_cassettes"
        return self._recorder.recordings.get(f"{sweep}/{run.position}/{run.attempt_number}")

    def _make_cassette(self, task: Task, tape: RunRecording) -> Cassette:
        settings = self._settings
        return Cassette(
            header=CassetteHeader(
                suite_id=self._suite.suite_id,
                suite_version=self._suite.suite_version,
                task_id=task.id,
                config_hash=config_hash(settings.select_agent(task.agent)),
                model=settings.model,
                effects=tuple(sorted(make_policy(task, settings.grants).granted)),
                rules=make_rules(task),
            ),
            calls=tuple(tape.calls),
        )
