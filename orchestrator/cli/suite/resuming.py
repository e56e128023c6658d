"""Finish a stored sweep of a suite, for the verb `resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.suite import sweeping
from orchestrator.suite.catalog import find_planned_suite
from orchestrator.suite.settings import Settings

if TYPE_CHECKING:
    from orchestrator.cli.resume_request import ResumeRequest


def resume_sweep(request: ResumeRequest) -> int:
    """Finish a sweep of a suite; return the exit code of the command that started it.

    Raises:
        UsageError: the suite has changed, can no longer be read, or a cap in USD cannot be counted.
    """
    request.refuse_uncounted_cost()
    conditions = request.sweep.conditions
    planned = Settings.from_json(conditions["settings"])
    settings, raised = request.apply_to(planned, models=[planned.model])
    stored = conditions["suite"]
    suite = find_planned_suite(stored["id"], Path(stored["root"]), bundled=stored["bundled"])
    return sweeping.finish_sweep(
        suite,
        settings,
        request.world,
        request.sweep,
        raised=raised,
        rerun_errors=request.rerun_errors,
        rerun_cancelled=request.rerun_cancelled,
    )
