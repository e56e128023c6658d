"""What a sweep of `lab record` leaves behind: a cassette for each fixture and target that was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from orchestrator.job import Asked
from orchestrator.lab.cassettes import LabCassette, write
from orchestrator.lab.cells import Cell
from orchestrator.lab.model import Lab
from orchestrator.reports.wording import counted
from providers.decisions.tape import Recorded, Tape, Taped
from store.errors import UsageError
from store.reader import Reader
from store.rows import RunRecord
from store.secrets import Redactor

Say = Callable[[str], None]

NEVER_KEPT = frozenset({"auth", "quota"})
"""Causes that say who asked, not what a backend decides: a cassette of them is of no use to anybody."""


@attrs.frozen(kw_only=True)
class Recording:
    """One recording of a lab, from the providers to the files."""

    lab: Lab
    tape: Tape = attrs.field(factory=Tape)

    def __attrs_post_init__(self) -> None:
        """Refuse where nothing can be written, before anybody is asked.

        Raises:
            UsageError: the lab is part of an installed package.
        """
        if self.lab.bundled:
            raise UsageError(
                f"{self.lab.root} is part of the installed package: its cassettes are not written over",
                "Copy it, and name the copy with --lab-dir.",
            )

    def attended(self, asked: Mapping[str, Asked]) -> dict[str, Asked]:
        """Everybody who is asked, taken down."""
        return {name: attrs.evolve(one, provider=Taped(one.provider, self.tape.keep)) for name, one in asked.items()}

    def write(self, reader: Reader, sweep: str, cells: Iterable[Cell], redactor: Redactor, say: Say) -> bool:
        """Write a cassette for every run of this process that was decided; whether that was all of them.

        Runs that this process did not execute are not its own to write down, and count as written.
        """
        of = {cell.key: cell for cell in cells}
        row = reader.sweep(sweep)
        keys = {cell.id: (cell.case_id, cell.variant) for cell in reader.cells(row.id)}
        written = refused = 0
        for run in reader.runs(row.id):
            key = keys[run.cell_id]
            answers = self.tape.of(*key)
            if not answers:
                continue
            name = f"{key[0]}, {key[1]}"
            try:
                file = self._written(of[key], run, answers, redactor)
            except UsageError as error:
                refused += 1
                say(f"no cassette of {name}: {error}")
                continue
            written += 1
            say(f"wrote {file}")
            if run.outcome != "pass":
                say(f"warning: {name} did not pass, and its replay will not either")
        say(f"{counted(written, 'cassette')} written to {self.lab.root}: look through them before you share them")
        return not refused

    def _written(
        self, cell: Cell, run: RunRecord, answers: Mapping[str, tuple[Recorded, ...]], redactor: Redactor
    ) -> Path:
        """Write one cassette; its path, relative to the lab.

        Raises:
            UsageError: it is not written.
        """
        if (why := _refusal(run)) is not None:
            raise UsageError(why)
        fixture = cell.fixture
        cassette = LabCassette(fixture_version=fixture.version, input_hash=fixture.input_hash, answers=answers)
        file = self.lab.cassette(fixture, cell.target)
        write(file, cassette, self.lab.root, redactor)
        return file.relative_to(self.lab.root)


def _refusal(run: RunRecord) -> str | None:
    """Why a run's answers are not kept."""
    if not run.judged or run.outcome == "error":
        return f"its run ended as {run.outcome}({run.reason})"
    decision = run.detail.get("decision")
    error = decision.get("error") if isinstance(decision, Mapping) else None
    cause = error.get("cause") if isinstance(error, Mapping) else None
    return f"its decision failed for {cause}" if cause in NEVER_KEPT else None
