"""What the caller grants, and what each task gets of it: never more than it asks, never more than is granted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import attrs

from orchestrator.suite.model import Task
from providers.base import Effect, Policy
from store.errors import UsageError


@attrs.frozen(kw_only=True)
class Grants:
    """The caller's flags: `--allow-...`, `--read-only`, `--allow-suite-full`."""

    effects: frozenset[Effect] = frozenset()
    read_only: bool = False
    suite_full: bool = False

    def usable_effects(self) -> frozenset[Effect]:
        """What runs may be given at most; reading is always granted."""
        always: frozenset[Effect] = frozenset({"read"})
        return always if self.read_only else always | self.effects


def refuse_ungranted(tasks: Iterable[Task], grants: Grants) -> None:
    """Check every task before the first run.

    Raises:
        UsageError: a task asks for an effect or a mode that the caller did not grant; names every task and effect.
    """
    problems = []
    missing: set[str] = set()
    for task in tasks:
        for effect in task.policy.allow:
            if effect not in grants.usable_effects() and not task.policy.read_only:
                problems.append(f"task '{task.id}' asks for the effect '{effect}', which was not granted")
                missing.add(f"--allow-{effect}")
        if task.policy.mode == "full" and not grants.suite_full:
            problems.append(f"task '{task.id}' has mode 'full'")
            missing.add("--allow-suite-full")
    if problems:
        flags = " ".join(sorted(missing))
        hint = (
            "--read-only grants nothing but reading"
            if grants.read_only
            else f"Grant it with {flags}, or leave these tasks out with --tasks."
        )
        raise UsageError("\n".join(problems), hint)


def make_policy(task: Task, grants: Grants) -> Policy:
    """The task's policy under these grants (checked before by `refuse_ungranted`)."""
    read: frozenset[Effect] = frozenset({"read"})
    if task.policy.read_only or grants.read_only:
        return Policy(mode=task.policy.mode, granted=read)
    asked = frozenset(task.policy.allow) & grants.usable_effects()
    match task.policy.mode:
        case "ask":
            return Policy(mode="ask", granted=read | asked, askable=frozenset(get_args(Effect)) - read - asked)
        case "full":
            return Policy(mode="full", granted=grants.usable_effects())
        case _:
            return Policy(mode="auto", granted=read | asked)
