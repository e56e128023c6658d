"""An agent suite in memory: the content of `suite.json`, checked and with its paths resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs

from providers.base import Effect
from verifiers.base import Verifier


@attrs.frozen(kw_only=True)
class TaskBudget:
    """Limits of one run. A run that exceeds one ends as `budget_exceeded`."""

    max_turns: int
    max_wall_ms: int
    max_tokens: int | None = None
    max_tool_calls: int | None = None


@attrs.frozen(kw_only=True)
class TaskPolicy:
    """Effects that a task requests. A task never gets more than the caller grants."""

    mode: Literal["ask", "auto", "full"] = "auto"
    allow: tuple[Effect, ...] = ()
    read_only: bool = False


@attrs.frozen(kw_only=True)
class Normalization:
    """A rule of replays: text that `pattern` matches is compared as if it were `replace`."""

    pattern: str
    replace: str


@attrs.frozen(kw_only=True)
class Task:
    """One case (a sample) of a suite: a prompt, a fixture, limits and verifiers (scorers)."""

    id: str
    prompt: str
    fixture: str
    """Path relative to the suite's directory, with `/` as separator."""
    budget: TaskBudget
    policy: TaskPolicy = TaskPolicy()
    verifiers: tuple[Verifier, ...]
    tags: tuple[str, ...] = ()
    agent: str | None = None
    fixture_git: bool = False
    replay_normalize: tuple[Normalization, ...] = ()


@attrs.frozen(kw_only=True)
class Suite:
    """A versioned set of tasks."""

    suite_id: str
    suite_version: str
    description: str
    tasks: tuple[Task, ...]
    root: Path
    """The suite's directory, absolute."""
    bundled: bool
    content: dict[str, str]
    """SHA-256 (hex) of `suite.json` and of every fixture file, by path relative to the root; `x:` before the hash
    marks an executable file, `l:` a symbolic link. `resume` compares these hashes."""
