"""The verifier `command`: runs a program without a shell and checks its exit code and output.

The program runs code that the agent wrote, so a timeout is a fail; only a program that cannot start is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

import attrs

from store.documents.text import drop_first_word, drop_last_word
from store.events import Json
from store.rows import Verdict, VerdictWord
from verifiers.base import Evidence
from verifiers.pristine import NotRestored, restore_check_files

if TYPE_CHECKING:
    from providers.system.process import FinishedProcess

MAX_TIMEOUT_MS = 600_000
"""Largest `timeoutMs`."""

MAX_OUTPUT_BYTES = 2**20
"""Largest number of output bytes that are read."""

MAX_KEPT_BYTES = 32 * 2**10
"""Bytes of each stream, from its end, that the detail of a failure keeps."""

MAX_KEPT_BYTES_ON_PASS = 2**10
"""Bytes of each stream that the detail of a pass keeps."""


def _as_texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(kw_only=True)
class Command:
    """Passes if `command`, run in the workspace, exits with `expect_exit` within `timeout_ms` and its stdout contains
    each text of `expect_stdout_includes`.

    The task's check files are restored first, so the pristine ones decide; the detail lists those that the run had
    changed as `tampered`.
    """

    kind: ClassVar[str] = "command"
    id: str
    command: tuple[str, ...] = attrs.field(converter=tuple[str, ...], validator=attrs.validators.min_len(1))
    timeout_ms: int = attrs.field(
        default=30_000, validator=[attrs.validators.ge(1), attrs.validators.le(MAX_TIMEOUT_MS)]
    )
    expect_exit: int = 0
    expect_stdout_includes: tuple[str, ...] = attrs.field(default=(), converter=_as_texts)

    async def verify(self, evidence: Evidence) -> Verdict:
        """Restore the check files, run the command and judge it. May change the workspace."""
        from providers.system.process import ProcessNotStarted  # noqa: PLC0415 - start-up: reading a suite starts no program
        from providers.system.sandbox import run_confined  # noqa: PLC0415 - start-up: reading a suite starts no program

        workspace = evidence.workspace
        if workspace.is_symlink() or not workspace.is_dir():
            return self._make_verdict("fail", {"reason": "workspace_gone"})
        try:
            tampered = restore_check_files(evidence.protected, evidence.fixture, workspace)
        except NotRestored as error:
            return self._make_verdict("error", {"reason": "check_file", "message": str(error)})
        restored: dict[str, Json] = {"tampered": list(tampered)} if tampered else {}
        try:
            finished = await run_confined(
                evidence.sandbox,
                self.command,
                cwd=workspace,
                environment=_build_environment(evidence),
                marker=evidence.marker,
                timeout_s=self.timeout_ms / 1000,
                output_limit=MAX_OUTPUT_BYTES,
            )
        except ProcessNotStarted as error:
            whose: VerdictWord = "fail" if self._was_changed_by_run(evidence) else "error"
            return self._make_verdict(whose, {"reason": "not_started", "message": str(error), **restored})
        wrong = self._find_mismatch(finished)
        detail = {
            **wrong,
            **_summarize_output(finished, MAX_KEPT_BYTES if wrong else MAX_KEPT_BYTES_ON_PASS),
            **restored,
        }
        return self._make_verdict("fail" if wrong else "pass", detail)

    def _find_mismatch(self, finished: FinishedProcess) -> dict[str, Json]:
        if finished.timed_out:
            return {"reason": "timeout", "timeoutMs": self.timeout_ms}
        if finished.exit_code != self.expect_exit:
            return {"reason": "exit", "expectExit": self.expect_exit}
        missing = [text for text in self.expect_stdout_includes if _encode_text(text) not in finished.stdout]
        return {"reason": "stdout", "missing": missing} if missing else {}

    def _was_changed_by_run(self, evidence: Evidence) -> bool:
        """Return whether the program is a file of the workspace that the run made, changed or deleted."""
        program = PurePosixPath(self.command[0])
        if program.is_absolute() or "/" not in self.command[0]:
            return False
        path = str(program)
        return any(change.path == path for change in evidence.changes) or not (evidence.fixture / path).exists()

    def _make_verdict(self, verdict: VerdictWord, detail: dict[str, Json]) -> Verdict:
        return Verdict(verifier=self.id, kind=self.kind, verdict=verdict, detail=detail)


def _build_environment(evidence: Evidence) -> dict[str, str]:
    # Bytecode left in the workspace must not replace its source: no diff shows it.
    return {"PYTHONPYCACHEPREFIX": "/dev/null", **evidence.environment}


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _summarize_output(finished: FinishedProcess, kept: int) -> dict[str, Json]:
    streams = {"stdout": finished.stdout, "stderr": finished.stderr}
    detail: dict[str, Json] = {"exitCode": finished.exit_code}
    detail |= {name: _decode_tail(data, kept, cut=finished.truncated) for name, data in streams.items() if data}
    if finished.truncated or any(len(data) > kept for data in streams.values()):
        detail["truncated"] = True
    return detail


def _decode_tail(data: bytes, kept: int, *, cut: bool) -> str:
    """Decode the last bytes of a stream, without a word that the cut may have halved."""
    text = data[-kept:].decode("utf-8", "replace")
    if len(data) > kept:
        text = drop_first_word(text)
    return drop_last_word(text) if cut else text
