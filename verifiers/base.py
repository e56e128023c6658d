"""The port of this folder: evidence in, judgement out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import attrs

from providers.base import ToolUse
from store.rows import FileChange, Judgement

if TYPE_CHECKING:
    from providers.system.sandbox import Sandbox

VERIFIER_API = 1
"""Version of the verifier port; an entry point of another version is refused."""


@attrs.frozen(kw_only=True)
class Evidence:
    """What a run left behind, as it was when the subject stopped, before any verifier ran."""

    workspace: Path
    fixture: Path
    """The pristine fixture; read only."""
    changes: tuple[FileChange, ...]
    """What differs between the two, sorted by path; `.git`, `node_modules` and `__pycache__` are ignored."""
    tools: tuple[ToolUse, ...] | None
    """The tool calls in order, refused and failed ones included; None where the subject does not tell them."""
    marker: str = ""
    """Goes into the environment of every process as EVALCTL_ATTEMPT."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """The variables a command verifier starts with (PATH, HOME, ...)."""
    sandbox: Sandbox | None = None
    """What the programs that verifiers start are confined by; for `providers.system.sandbox.run_confined`."""
    protected: tuple[str, ...] = ()
    """The task's check files, relative to the fixture: put back before a command runs. Filled in by `judge`."""


class Verifier(Protocol):
    """Checks one thing about a run: a frozen attrs class whose fields are its keys in a suite file, in snake_case.

    One that only reads files says so by a class attribute `only_looks = True`: it is asked first, and may be shown the
    pristine fixture where the run has not touched its workspace.
    """

    kind: ClassVar[str]

    @property
    def id(self) -> str:
        """Unique within its task."""

    async def verify(self, evidence: Evidence) -> Judgement:
        """Judge. `error` means that it could not run; it is neither a pass nor a fail. Never raises for what a run
        may have done to its workspace.
        """
