"""The verifiers `file-equals`, `file-contains` and `file-absent`: check one file of the workspace.

A path that leads outside the workspace, even through symbolic links, or to a directory, FIFO or device is never opened.
If the suite is to blame, the verdict is `error`; if the run caused it, `fail`, so that a run cannot drop out of the
rates by putting a link or a directory in a file's place. A file above 256 MiB is not read and fails.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import ClassVar

import attrs

from providers.system.paths import PathEscapes, check_relative, resolve_inside
from store.errors import EvalctlError
from store.events import Json
from store.rows import Verdict, VerdictWord
from verifiers.base import Evidence

MAX_FILE_BYTES = 256 * 2**20
"""Size in bytes of the largest file that is read."""

CHUNK_BYTES = 2**20
"""Bytes read at once; a file of at most this size is read without a thread."""


def _lower_text(text: str) -> str:
    return text.lower()


@attrs.frozen(kw_only=True)
class FileEquals:
    """Passes if the file's SHA-256 is `sha256` (hex, either case). A missing file fails."""

    kind: ClassVar[str] = "file-equals"
    only_looks: ClassVar[bool] = True
    id: str
    path: str
    sha256: str = attrs.field(converter=_lower_text, validator=attrs.validators.matches_re(r"[0-9a-f]{64}"))

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judge the content by its hash."""
        return await _check_file(self.id, self.kind, evidence, self.path, self._compare_hash)

    def _compare_hash(self, chunks: Iterator[bytes]) -> dict[str, Json] | None:
        sha = hashlib.sha256()
        for chunk in chunks:
            sha.update(chunk)
        digest = sha.hexdigest()
        return None if digest == self.sha256 else {"reason": "differs", "sha256": digest, "expected": self.sha256}


@attrs.frozen(kw_only=True)
class FileContains:
    """Passes if the file contains `text`, byte for byte as UTF-8. A missing file fails."""

    kind: ClassVar[str] = "file-contains"
    only_looks: ClassVar[bool] = True
    id: str
    path: str
    text: str

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judge the content by its text."""
        return await _check_file(self.id, self.kind, evidence, self.path, self._search_text)

    def _search_text(self, chunks: Iterator[bytes]) -> dict[str, Json] | None:
        wanted = self.text.encode("utf-8", "surrogatepass")
        seen = b""
        for chunk in chunks:
            seen += chunk
            if wanted in seen:
                return None
            seen = seen[max(0, len(seen) - len(wanted) + 1) :]  # the text may lie across two chunks
        return None if not wanted else {"reason": "text_missing"}


@attrs.frozen(kw_only=True)
class FileAbsent:
    """Passes if `path` does not exist: no file, no directory, not even a dangling link."""

    kind: ClassVar[str] = "file-absent"
    only_looks: ClassVar[bool] = True
    id: str
    path: str

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judge the absence of the path."""
        try:
            exists = _path_exists(_require_workspace(evidence.workspace), self.path)
        except _NotReadError as error:
            return _make_verdict(self.id, self.kind, "fail", {"reason": error.reason, "path": self.path})
        except (PathEscapes, OSError) as error:
            return _make_verdict(
                self.id, self.kind, _assign_blame(error, evidence, self.path), _explain_error(error, self.path)
            )
        if exists:
            return _make_verdict(self.id, self.kind, "fail", {"reason": "present", "path": self.path})
        return _make_verdict(self.id, self.kind, "pass", {})


ContentCheck = Callable[[Iterator[bytes]], dict[str, Json] | None]
"""Checks a file's content; returns the detail of a mismatch, or None."""


@attrs.define(slots=False)
class _NotReadError(EvalctlError):
    """The path cannot be read, because of the run."""

    reason: str


class _NotAFileError(_NotReadError):
    """The path is a directory, a FIFO or a device; a directory may be the fixture's own."""


async def _check_file(name: str, kind: str, evidence: Evidence, relative: str, check: ContentCheck) -> Verdict:
    try:
        path, status = _locate_file(_require_workspace(evidence.workspace), relative)
        if status.st_nlink > 1 and evidence.workspace != evidence.fixture:  # its other name may lie outside
            raise _NotReadError("hard_link")
        size = status.st_size
        if size <= CHUNK_BYTES:
            wrong = check(_read_chunks(path))
        else:
            import anyio.to_thread  # noqa: PLC0415 - start-up: only running needs an event loop

            wrong = await anyio.to_thread.run_sync(lambda: check(_read_chunks(path)))
    except _NotAFileError as error:
        verdict: VerdictWord = "error" if (evidence.fixture / relative).is_dir() else "fail"
        return _make_verdict(name, kind, verdict, {"reason": error.reason, "path": relative})
    except _NotReadError as error:
        return _make_verdict(name, kind, "fail", {"reason": error.reason, "path": relative})
    except (PathEscapes, OSError) as error:
        return _make_verdict(name, kind, _assign_blame(error, evidence, relative), _explain_error(error, relative))
    if wrong is None:
        return _make_verdict(name, kind, "pass", {})
    return _make_verdict(name, kind, "fail", {**wrong, "path": relative})


def _require_workspace(workspace: Path) -> Path:
    """Return the workspace; refuse it if the run has replaced it by a link, which is not followed."""
    if workspace.is_symlink():
        raise _NotReadError("workspace_gone")
    return workspace


def _path_exists(workspace: Path, relative: str) -> bool:
    resolve_inside(workspace, relative)  # refuses a link that leads outside, whatever its target
    whole = PurePosixPath(relative)
    return os.path.lexists(resolve_inside(workspace, str(whole.parent)) / whole.name)


def _locate_file(workspace: Path, relative: str) -> tuple[str, os.stat_result]:
    """Locate the file: its path and its status."""
    path, resolved = f"{workspace}/{relative}", False
    if "/" in relative or check_relative(relative) is not None:
        path, resolved = str(resolve_inside(workspace, relative)), True
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) and not resolved:  # a plain name leads elsewhere only if it is a link
            path = str(resolve_inside(workspace, relative))
            status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _NotReadError("missing") from error
    _check_type(status)
    return path, status


def _check_type(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):  # a link that is left after resolving is dangling
        raise _NotReadError("missing")
    if not stat.S_ISREG(status.st_mode):
        raise _NotAFileError("not_a_file")
    if status.st_size > MAX_FILE_BYTES:
        raise _NotReadError("too_large")


def _read_chunks(path: str) -> Iterator[bytes]:
    # O_NONBLOCK: if the file has become a FIFO since the check, opening it does not wait for a writer
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        left = MAX_FILE_BYTES
        while left > 0 and (chunk := os.read(handle, min(CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk
    finally:
        os.close(handle)


def _assign_blame(error: PathEscapes | OSError, evidence: Evidence, relative: str) -> VerdictWord:
    """Return `error` if the suite names a path that cannot be read, `fail` if the run made it one."""
    if isinstance(error, OSError):
        return "error"
    try:
        resolve_inside(evidence.fixture, relative)
    except PathEscapes:
        return "error"
    return "fail"


def _explain_error(error: PathEscapes | OSError, relative: str) -> dict[str, Json]:
    if isinstance(error, PathEscapes):
        return {"reason": "path_escapes", "path": relative}
    return {"reason": "unreadable", "path": relative, "cause": error.strerror or type(error).__name__}


def _make_verdict(name: str, kind: str, verdict: VerdictWord, detail: dict[str, Json]) -> Verdict:
    return Verdict(verifier=name, kind=kind, verdict=verdict, detail=detail)
