"""Effects that the caller grants, and the policy of each task under them.

A task gets no effect that it did not request and none that the caller did not grant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import attrs

from orchestrator.suite.model import Task
from providers.base import Effect, Policy
from store.errors import UsageError


@attrs.frozen(kw_only=True)
class Grants:
    """Permissions from the caller's flags: `--allow-...`, `--read-only`, `--allow-suite-full`."""

    effects: frozenset[Effect] = frozenset()
    read_only: bool = False
    suite_full: bool = False

    def list_usable_effects(self) -> frozenset[Effect]:
        """List the effects that a run may have at most; reading is always one of them."""
        always: frozenset[Effect] = frozenset({"read"})
        return always if self.read_only else always | self.effects


def refuse_ungranted(tasks: Iterable[Task], grants: Grants) -> None:
    """Check before the first run that the caller granted what every task requests.

    Raises:
        UsageError: a task requests an effect or a mode that the caller did not grant; names every task and effect.
    """
    problems = []
    missing: set[str] = set()
    for task in tasks:
        for effect in task.policy.allow:
            if effect not in grants.list_usable_effects() and not task.policy.read_only:
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
    """Make the task's policy under *grants*, which `refuse_ungranted` has checked."""
    read: frozenset[Effect] = frozenset({"read"})
    if task.policy.read_only or grants.read_only:
        return Policy(mode=task.policy.mode, granted=read)
    requested = frozenset(task.policy.allow) & grants.list_usable_effects()
    match task.policy.mode:
        case "ask":
            return Policy(mode="ask", granted=read | requested, askable=frozenset(get_args(Effect)) - read - requested)
        case "full":
            return Policy(mode="full", granted=grants.list_usable_effects())
        case _:
            return Policy(mode="auto", granted=read | requested)
