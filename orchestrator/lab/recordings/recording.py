"""The recorder of `lab record`: writes a cassette for each case and target that was answered."""

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
"""Causes of errors that depend on the caller's account, not on the backend: a cassette of them is useless."""


@attrs.define(kw_only=True)
class Recording:
    """One process's recording of a lab, from the providers to the files.

    Raises:
        UsageError: cassettes cannot be written, for example because the lab is part of an installed package.
    """

    lab: Lab
    redactor: Redactor
    """Finds the secrets that no cassette may hold."""
    unplayed: frozenset[str] = frozenset()
    """Ids of cases whose cassettes are never played; see `offline.find_self_answering_cases`."""
    tape: AnswerLog = attrs.field(factory=AnswerLog)
    _written: list[str] = attrs.field(factory=list[str], init=False)
    _remarks: list[str] = attrs.field(factory=list[str], init=False)
    _refused: list[str] = attrs.field(factory=list[str], init=False)

    def __attrs_post_init__(self) -> None:
        if self.lab.bundled:
            raise UsageError(
                f"{self.lab.root} is part of the installed package, where no cassettes are written",
                "Copy it, and name the copy with --lab-dir.",
            )
        refuse_unwritable(self.lab.root)

    def record_providers(self, providers: Mapping[str, PricedProvider]) -> dict[str, PricedProvider]:
        """Wrap the providers so that the tape keeps their answers."""
        return {
            name: attrs.evolve(priced, provider=AnswerRecorder(priced.provider, self.tape.keep_answer))
            for name, priced in providers.items()
        }

    def record_ending(self, cell: Cell, ending: Ending) -> None:
        """Write the cassette of a finished run.

        This happens before the result is stored: if the process is killed in between, `resume` runs it again.
        """
        answers = self.tape.list_answers(*cell.key)
        if not answers:
            return
        name = ", ".join(cell.key)
        try:
            self._written.append(self._write_cassette(cell, ending, answers))
        except UsageError as error:
            self._refused.append(f"no cassette written for {name}: {error}")
            return
        if cell.case.case_id in self.unplayed:
            self._remarks.append(f"warning: {name} is never played: the fixture's own replay answers every call")
        elif ending.outcome != "pass":
            self._remarks.append(f"warning: {name} did not pass, and its replay will not either")

    def report_written(self, print_line: Callable[[str], None], print_error: Callable[[str], None]) -> bool:
        """Print the written cassettes, remarks and errors; return whether no cassette failed."""
        for file in sorted(self._written):
            print_line(f"wrote {file}")
        for remark in sorted(self._remarks):
            print_line(remark)
        for refused in sorted(self._refused):
            print_error(refused)
        advice = ": check them for confidential data before you share them" if self._written else ""
        print_line(f"{format_count(len(self._written), 'cassette')} written to {self.lab.root}{advice}")
        return not self._refused

    def _write_cassette(self, cell: Cell, ending: Ending, answers: Mapping[str, tuple[RecordedAnswer, ...]]) -> str:
        """Write one cassette; return its path relative to the lab.

        Raises:
            UsageError: it was not written.
        """
        if (reason := _explain_refusal(ending)) is not None:
            raise UsageError(reason)
        case = cell.case
        cassette = LabCassette(fixture_version=case.version, input_hash=case.input_hash, answers=answers)
        relative = case.cassette_path(cell.target)
        write_cassette(self.lab.root / relative, cassette, self.lab.root, self.redactor)
        return relative


def _explain_refusal(ending: Ending) -> str | None:
    """Return why a run's answers are not recorded; None if they are."""
    if not ending.judged or ending.outcome == "error":
        return f"its run ended as {ending.outcome}({ending.reason})"
    error = ending.detail["decision"]["error"]
    cause = error["cause"] if error is not None else None
    return f"its decision failed for {cause}" if cause in UNRECORDED_CAUSES else None
