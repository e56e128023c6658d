"""The verifier port: evidence of a run in, verdict out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import attrs

from providers.base import ToolUse
from store.rows import FileChange, Verdict

if TYPE_CHECKING:
    from providers.system.sandbox import Sandbox

VERIFIER_API = 1
"""Version of the verifier port; entry points of another version are refused."""


@attrs.frozen(kw_only=True)
class Evidence:
    """The evidence of a run: its workspace and tool calls as of the subject's stop, before any verifier ran."""

    workspace: Path
    fixture: Path
    """The pristine fixture; treat it as read-only."""
    changes: tuple[FileChange, ...]
    """The differences of the workspace to the fixture, by path, without `.git`, `node_modules` and `__pycache__`."""
    tools: tuple[ToolUse, ...] | None
    """The tool calls in order, refused and failed ones included; None if the subject does not report them."""
    marker: str = ""
    """Value of EVALCTL_ATTEMPT in the environment of every process that a verifier starts."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """Environment variables of a command verifier. `aggregate.py` sets HOME and TMPDIR to a new directory for each
    verifier."""
    sandbox: Sandbox | None = None
    """Sandbox for the programs that verifiers start, for `providers.system.sandbox.run_confined`; None: unconfined."""
    protected: tuple[str, ...] = ()
    """The task's check files, relative to the fixture, to restore before a command runs. Set by `aggregate.py`."""


class Verifier(Protocol):
    """A verifier checks one property of a run: a frozen attrs class whose fields are its keys in a suite file.

    A read-only verifier declares the class attribute `only_looks = True`: it runs first, and may receive the pristine
    fixture as the workspace if the run changed nothing.
    """

    kind: ClassVar[str]

    @property
    def id(self) -> str:
        """Unique within its task."""

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judge the run. `error`, neither pass nor fail, means that the verifier could not run.

        Never raises for the state in which a run may have left its workspace.
        """
