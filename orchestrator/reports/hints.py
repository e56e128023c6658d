"""Commands that a report proposes, as values. The command line adds the program's name and the store."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from orchestrator.reports.phrases import describe_resume


@attrs.frozen
class Hint:
    """A command to run next, without the program's name: `resume S --errors`."""

    command: str
    remark: str = ""
    """Effect of the command; printed behind it."""
    lead: str = "next:"
    """Words printed before the command."""


Line = str | Hint
"""A line of a report."""


def propose_commands(
    sweep: str, *, left: int, capped: bool, errors: int, first_not_passed: int | None
) -> Iterator[Hint]:
    """Propose what to do after the report of *sweep*.

    Args:
        sweep: its name.
        left: runs that a plain `resume` runs.
        capped: whether runs were skipped because a cap was spent.
        errors: runs that only `resume --errors` runs again.
        first_not_passed: position of the first run that did not pass.
    """
    if left:
        yield Hint(f"resume {sweep}", describe_resume(left, capped=capped))
    if errors:
        yield Hint(f"resume {sweep} --errors", f"also reruns the runs that ended in an error ({errors:,})")
    if first_not_passed is not None:
        yield Hint(f"show {sweep}/{first_not_passed}", "shows the first run that did not pass")
