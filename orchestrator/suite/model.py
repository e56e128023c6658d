"""An agent suite in memory: what `suite.json` says, checked and resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs

from providers.base import Effect
from verifiers.base import Verifier


@attrs.frozen(kw_only=True)
class TaskBudget:
    """Bounds of one run; passing one ends it as `budget_exceeded`."""

    max_turns: int
    max_wall_ms: int
    max_tokens: int | None = None
    max_tool_calls: int | None = None


@attrs.frozen(kw_only=True)
class TaskPolicy:
    """What a task asks to be allowed; it can only equal or restrict what the caller grants."""

    mode: Literal["ask", "auto", "full"] = "auto"
    allow: tuple[Effect, ...] = ()
    read_only: bool = False


@attrs.frozen(kw_only=True)
class Normalization:
    """A replay rule: what `pattern` matches is compared as `replace`."""

    pattern: str
    replace: str


@attrs.frozen(kw_only=True)
class Task:
    """One case: a prompt, a fixture, bounds, and verifiers."""

    id: str
    prompt: str
    fixture: str
    """Relative to the suite's directory, with `/`."""
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
    marks an executable file, `l:` a symbolic link. What a resume compares."""
