"""The verifier `command`: a program, started without a shell, judges by its exit code and what it prints.

It runs code that the agent wrote, so one that takes too long fails; only one that cannot be started is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

import attrs

from store.documents.text import without_first_word, without_last_word
from store.events import Json
from store.rows import Judgement, VerdictWord
from verifiers.base import Evidence
from verifiers.pristine import NotRestored, restore

if TYPE_CHECKING:
    from providers.system.process import Finished

LONGEST_MS = 600_000
"""The largest `timeoutMs`."""

OUTPUT_LIMIT = 2**20
"""Bytes of output that are looked at."""

KEPT = 32 * 2**10
"""Bytes of each stream that the detail of a failure keeps, from its end."""

KEPT_ON_PASS = 2**10
"""The same where it passed."""


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(kw_only=True)
class Command:
    """Passes when `command`, run in the workspace, exits with `expect_exit` within `timeout_ms` and its output holds
    each text of `expect_stdout_includes`.

    The task's check files are put back first; those that the run had changed are told as `tampered` in the detail,
    and the pristine ones decide.
    """

    kind: ClassVar[str] = "command"
    id: str
    command: tuple[str, ...] = attrs.field(converter=tuple, validator=attrs.validators.min_len(1))
    timeout_ms: int = attrs.field(default=30_000, validator=[attrs.validators.ge(1), attrs.validators.le(LONGEST_MS)])
    expect_exit: int = 0
    expect_stdout_includes: tuple[str, ...] = attrs.field(default=(), converter=_texts)

    async def verify(self, evidence: Evidence) -> Judgement:
        """Judge. The workspace may look different afterwards."""
        from providers.system.process import ProcessNotStarted  # brings what reading a suite can spare
        from providers.system.sandbox import run_confined

        workspace = evidence.workspace
        if workspace.is_symlink() or not workspace.is_dir():
            return self._judgement("fail", {"reason": "workspace_gone"})
        try:
            tampered = restore(evidence.protected, evidence.fixture, workspace)
        except NotRestored as error:
            return self._judgement("error", {"reason": "check_file", "message": str(error)})
        told: dict[str, Json] = {"tampered": list(tampered)} if tampered else {}
        try:
            finished = await run_confined(
                evidence.sandbox,
                self.command,
                cwd=workspace,
                environment=_environment(evidence),
                marker=evidence.marker,
                timeout_s=self.timeout_ms / 1000,
                output_limit=OUTPUT_LIMIT,
            )
        except ProcessNotStarted as error:
            whose: VerdictWord = "fail" if self._is_the_runs_own(evidence) else "error"
            return self._judgement(whose, {"reason": "not_started", "message": str(error), **told})
        wrong = self._wrong(finished)
        detail = {**wrong, **_seen(finished, KEPT if wrong else KEPT_ON_PASS), **told}
        return self._judgement("fail" if wrong else "pass", detail)

    def _wrong(self, finished: Finished) -> dict[str, Json]:
        if finished.timed_out:
            return {"reason": "timeout", "timeoutMs": self.timeout_ms}
        if finished.exit_code != self.expect_exit:
            return {"reason": "exit", "expectExit": self.expect_exit}
        missing = [text for text in self.expect_stdout_includes if _encoded(text) not in finished.stdout]
        return {"reason": "stdout", "missing": missing} if missing else {}

    def _is_the_runs_own(self, evidence: Evidence) -> bool:
        """Whether the program that does not start is one of the workspace that the run made, changed or deleted."""
        program = PurePosixPath(self.command[0])
        if program.is_absolute() or "/" not in self.command[0]:
            return False
        path = str(program)
        return any(change.path == path for change in evidence.changes) or not (evidence.fixture / path).exists()

    def _judgement(self, verdict: VerdictWord, detail: dict[str, Json]) -> Judgement:
        return Judgement(verifier=self.id, kind=self.kind, verdict=verdict, detail=detail)


def _environment(evidence: Evidence) -> dict[str, str]:
    # Bytecode left in the workspace must not stand in for its source: it is in nobody's diff.
    return {"PYTHONPYCACHEPREFIX": "/dev/null", **evidence.environment}


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _seen(finished: Finished, kept: int) -> dict[str, Json]:
    streams = {"stdout": finished.stdout, "stderr": finished.stderr}
    detail: dict[str, Json] = {"exitCode": finished.exit_code}
    detail |= {name: _end(data, kept, cut=finished.truncated) for name, data in streams.items() if data}
    if finished.truncated or any(len(data) > kept for data in streams.values()):
        detail["truncated"] = True
    return detail


def _end(data: bytes, kept: int, *, cut: bool) -> str:
    """The last bytes of a stream as text, without what may be half a word where it was cut."""
    text = data[-kept:].decode("utf-8", "replace")
    if len(data) > kept:
        text = without_first_word(text)
    return without_last_word(text) if cut else text
