"""What a sweep of `lab record` leaves behind: a cassette for each fixture and target that was answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from orchestrator.engine.kind import PricedProvider
from orchestrator.lab.cells import Cell
from orchestrator.lab.model import Lab
from orchestrator.lab.recordings.cassettes import LabCassette, refuse_unwritable, write_cassette
from orchestrator.text import format_count
from providers.decisions.answer_log import AnswerLog, AnswerRecorder, RecordedAnswer
from store.errors import UsageError
from store.rows import Ending
from store.secrets.redactor import Redactor

UNRECORDED_CAUSES = frozenset({"auth", "quota"})
"""Causes that say who asked, not what a backend decides: a cassette of them is of no use to anybody."""


@attrs.define(kw_only=True)
class Recording:
    """One process's recording of a lab, from the providers to the files.

    Raises:
        UsageError: nothing can be written, such as since the lab is part of an installed package.
    """

    lab: Lab
    redactor: Redactor
    """What it knows for a secret is in no cassette."""
    unplayed: frozenset[str] = frozenset()
    """Cases that their fixtures' own answers suffice for; see `offline.answered_by_themselves`."""
    tape: AnswerLog = attrs.field(factory=AnswerLog)
    _written: list[str] = attrs.field(factory=list[str], init=False)
    _remarks: list[str] = attrs.field(factory=list[str], init=False)
    _refused: list[str] = attrs.field(factory=list[str], init=False)

    def __attrs_post_init__(self) -> None:
        if self.lab.bundled:
            raise UsageError(
                f"{self.lab.root} is part of the installed package: its cassettes are not written over",
                "Copy it, and name the copy with --lab-dir.",
            )
        refuse_unwritable(self.lab.root)

    def record_providers(self, providers: Mapping[str, PricedProvider]) -> dict[str, PricedProvider]:
        """Everybody who is asked, taken down."""
        return {
            name: attrs.evolve(one, provider=AnswerRecorder(one.provider, self.tape.keep_answer))
            for name, one in providers.items()
        }

    def record_ending(self, cell: Cell, ending: Ending) -> None:
        """Write the cassette of a run that has ended; called before its result is stored, so that none is lost with a
        process that is killed.
        """
        answers = self.tape.list_answers(*cell.key)
        if not answers:
            return
        name = ", ".join(cell.key)
        try:
            self._written.append(self._write_cassette(cell, ending, answers))
        except UsageError as error:
            self._refused.append(f"no cassette of {name}: {error}")
            return
        if cell.case.case_id in self.unplayed:
            self._remarks.append(f"warning: {name} is not played: the fixture's own replay answers all that is asked")
        elif ending.outcome != "pass":
            self._remarks.append(f"warning: {name} did not pass, and its replay will not either")

    def report_written(self, print_line: Callable[[str], None], print_error: Callable[[str], None]) -> bool:
        """Say what was written, and complain of what was not; whether everything that was answered was written."""
        for file in sorted(self._written):
            print_line(f"wrote {file}")
        for remark in sorted(self._remarks):
            print_line(remark)
        for refused in sorted(self._refused):
            print_error(refused)
        look = ": look through them before you share them" if self._written else ""
        print_line(f"{format_count(len(self._written), 'cassette')} written to {self.lab.root}{look}")
        return not self._refused

    def _write_cassette(self, cell: Cell, ending: Ending, answers: Mapping[str, tuple[RecordedAnswer, ...]]) -> str:
        """Write one cassette; its path, relative to the lab.

        Raises:
            UsageError: it is not written.
        """
        if (why := _explain_refusal(ending)) is not None:
            raise UsageError(why)
        fixture = cell.case
        cassette = LabCassette(fixture_version=fixture.version, input_hash=fixture.input_hash, answers=answers)
        relative = fixture.cassette_path(cell.target)
        write_cassette(self.lab.root / relative, cassette, self.lab.root, self.redactor)
        return relative


def _explain_refusal(ending: Ending) -> str | None:
    """Why a run's answers are not kept."""
    if not ending.judged or ending.outcome == "error":
        return f"its run ended as {ending.outcome}({ending.reason})"
    error = ending.detail["decision"]["error"]
    cause = error["cause"] if error is not None else None
    return f"its decision failed for {cause}" if cause in UNRECORDED_CAUSES else None
