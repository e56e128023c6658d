"""Finishing a suite's sweep: the part of `resume` that is a suite's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.suite import sweeping
from orchestrator.suite.catalog import find_planned_suite
from orchestrator.suite.settings import Settings

if TYPE_CHECKING:
    from orchestrator.cli.resume_request import ResumeRequest


def resume_sweep(request: ResumeRequest) -> int:
    """Finish a suite's sweep; the exit code of its own command.

    Raises:
        UsageError: the suite has changed, cannot be read any more, or a cap in USD cannot be counted.
    """
    request.refuse_uncounted_cost()
    conditions = request.sweep.conditions
    planned = Settings.from_json(conditions["settings"])
    settings, raised = request.apply_to(planned, models=[planned.model])
    about = conditions["suite"]
    suite = find_planned_suite(about["id"], Path(about["root"]), bundled=about["bundled"])
    return sweeping.go_on(
        suite,
        settings,
        request.world,
        request.sweep,
        raised=raised,
        errors=request.errors,
        cancelled=request.cancelled,
    )
