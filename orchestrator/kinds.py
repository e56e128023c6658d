"""Table of the kinds of sweeps: how each is recognised, named and reported.

Functions of a kind are dotted names here (`module:name`) and are imported when they are called: a verb that reads one
sweep imports one kind. How each kind is resumed stands in the command line's own table, `cli/sweeps/resume.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.lab import nouns as lab_nouns
from orchestrator.suite import nouns as suite_nouns
from store.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.comparison.arm import Arm
    from orchestrator.comparison.stored import SideWords
    from orchestrator.engine.nouns import KindNouns
    from store.rows import SweepRow
    from store.sql.reader import Reader


@attrs.frozen(kw_only=True)
class SweepKind:
    """One kind of sweep: its nouns, and the dotted names of its functions."""

    name: str
    """The key that marks the conditions of its sweeps; those of the kinds after it in `KINDS` lack it."""
    nouns: KindNouns
    report: str
    """Builds the report of a stored sweep: takes the reader, the sweep and `variant`."""
    printer: str
    """Prints a report on a terminal."""
    proposer: str
    """Proposes the commands to run after reading a report."""
    encoder: str
    """Writes a report as one line of JSON."""
    conditions: str
    """Reads the conditions of measurement from stored rows."""
    report_schema: str | None = None
    """The schema of its report files, without the version; None if it writes none that `compare` reads."""
    report_reader: str | None = None
    """Reads one side of a comparison from the fields of such a file: takes them, the path, and the variant or None."""
    refusals: Mapping[str, tuple[str, str]] = attrs.field(factory=dict)
    """By verb that cannot read such a sweep: the reason, which follows the sweep's name, and a hint."""

    def build_report(self, reader: Reader, sweep: SweepRow, variant: str | None = None) -> Any:
        """Build the report of *sweep* from its rows as they are now; with *variant* from its runs alone."""
        return load_attribute(self.report)(reader, sweep, variant=variant)

    def side_words(self) -> SideWords:
        """Return the noun and the reader with which `compare` reads one side of such a sweep."""
        from orchestrator.comparison.stored import SideWords

        return SideWords(noun=self.nouns.variant, conditions_of=load_attribute(self.conditions))


SUITE = SweepKind(
    name="suite",
    nouns=suite_nouns.NOUNS,
    report="orchestrator.suite.report.build:build_report",
    printer="orchestrator.suite.report.terminal:print_report",
    proposer="orchestrator.suite.report.terminal:propose_next_commands",
    encoder="orchestrator.suite.report.json_report:encode_line",
    conditions="orchestrator.reports.conditions:conditions_of",
    report_schema="evalctl.report",
    report_reader="orchestrator.suite.report.report_file:read_report_arm",
)
LAB = SweepKind(
    name="lab",
    nouns=lab_nouns.NOUNS,
    report="orchestrator.lab.report.stored:build_stored_report",
    printer="orchestrator.lab.report.terminal:print_report",
    proposer="orchestrator.lab.report.terminal:propose_next_commands",
    encoder="orchestrator.lab.report.json_form:render_json_line",
    conditions="orchestrator.lab.report.conditions:read_conditions",
    refusals={
        "verify": (
            "ran a decision lab, and no verifier judges its runs",
            "Use `evalctl lab offline` to check recorded answers against the current assertions.",
        ),
        "export": (
            "ran a decision lab; `export` can only remove private data from sweeps of suites",
            "A lab's run directory contains report.md and results.jsonl: read them before you share them.",
        ),
    },
)
KINDS = (LAB, SUITE)
"""In the order in which a sweep is recognised: conditions of labs have the key `suite` too."""


def kind_of(sweep: SweepRow) -> SweepKind:
    """Find the kind of a stored sweep by the keys of its conditions. No sweep stores its kind by name."""
    return next((kind for kind in KINDS if kind.name in sweep.conditions), SUITE)


def refuse_unreadable(sweep: SweepRow, verb: str) -> None:
    """Refuse a sweep whose kind *verb* cannot read.

    Raises:
        UsageError: *verb* cannot read sweeps of its kind.
    """
    refusal = kind_of(sweep).refusals.get(verb)
    if refusal is not None:
        why, hint = refusal
        raise UsageError(f"{sweep.name} {why}", hint)


def read_report_side(path: Path, variant: str | None) -> Arm:
    """Read one side of a comparison from the report file at *path*, by the reader of the kind that wrote it.

    A file of an unknown schema goes to the reader of suites, whose message names the schema that it expects.

    Raises:
        UsageError: the file does not exist, or its kind's reader refuses it.
    """
    from orchestrator.reports.report_file import read_fields

    fields = read_fields(path)
    schema = str(fields.value.get("schema")).partition("/")[0]
    kind = next((kind for kind in KINDS if kind.report_schema == schema), SUITE)
    assert kind.report_reader is not None
    arm: Arm = load_attribute(kind.report_reader)(fields, path, variant)
    return arm


def load_attribute(name: str) -> Callable[..., Any]:
    """Import a function by its dotted name, `module:name`."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    return function
