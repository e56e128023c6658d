"""Runs a task's verifiers and combines their verdicts into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from store.errors import EvalctlError
from store.rows import Verdict, VerdictWord
from verifiers.base import Evidence, Verifier
from verifiers.pristine import find_check_files


async def run_verifiers(verifiers: Sequence[Verifier], evidence: Evidence) -> tuple[Verdict, ...]:
    """Run every verifier, one after the other. Returns their verdicts in the order of *verifiers*.

    Read-only verifiers run first, because a command may change the files that they read. A verifier that cannot run
    gives the verdict `error`; the others still run. Each verifier that is not read-only gets a new HOME, since a run
    may have left programs in the old one that a check would load.
    """
    if are_read_only(verifiers):
        return tuple([await _run_verifier(verifier, evidence) for verifier in verifiers])
    evidence = attrs.evolve(evidence, protected=find_check_files(verifiers, evidence.fixture))
    looking_first = sorted(range(len(verifiers)), key=lambda place: not is_read_only(verifiers[place]))
    verdicts = {place: await _run_in_new_home(verifiers[place], evidence) for place in looking_first}
    return tuple(verdicts[place] for place in range(len(verifiers)))


def are_read_only(verifiers: Iterable[Verifier]) -> bool:
    """Return whether all verifiers are read-only: then they may read the fixture in place of an unchanged workspace."""
    return all(map(is_read_only, verifiers))


def is_read_only(verifier: Verifier) -> bool:
    """Return whether the verifier declares that it only reads; without `only_looks` it may do anything."""
    return bool(getattr(verifier, "only_looks", False))


async def _run_in_new_home(verifier: Verifier, evidence: Evidence) -> Verdict:
    if is_read_only(verifier):
        return await _run_verifier(verifier, evidence)
    try:
        with _provide_new_home(evidence) as private:
            return await _run_verifier(verifier, private)
    except OSError as error:
        return _make_error(verifier, f"a home for it: {error.strerror or 'failed'}")


@contextmanager
def _provide_new_home(evidence: Evidence) -> Iterator[Evidence]:
    """Provide *evidence* with an environment whose HOME and TMPDIR is a new, empty directory, removed at the end."""
    import tempfile  # noqa: PLC0415 - start-up: reading a suite runs no verifier

    from providers.system.marks import build_home_prefix  # noqa: PLC0415 - start-up: reading a suite runs no verifier
    from providers.system.removal import remove_tree  # noqa: PLC0415 - start-up: reading a suite runs no verifier

    home = tempfile.mkdtemp(prefix=build_home_prefix(evidence.marker))
    try:
        private = {"HOME": home, "TMPDIR": home, "PYTHONNOUSERSITE": "1"}
        yield attrs.evolve(evidence, environment={**evidence.environment, **private})
    finally:
        remove_tree(Path(home))


async def _run_verifier(verifier: Verifier, evidence: Evidence) -> Verdict:
    try:
        return await verifier.verify(evidence)
    except (EvalctlError, OSError) as error:
        return _make_error(verifier, str(error))


def _make_error(verifier: Verifier, message: str) -> Verdict:
    detail = {"reason": "failed", "message": message}
    return Verdict(verifier=verifier.id, kind=verifier.kind, verdict="error", detail=detail)


def combine_verdicts(judgements: Iterable[Verdict]) -> tuple[VerdictWord, float | None]:
    """Combine the verdicts of a run into one, with its composite score.

    `error` (no composite) if any verifier had an error, or if there are no verdicts: an unchecked run has neither
    passed nor failed. Else `pass` (1.0) if all passed, or `fail` (0.0).
    """
    words = {judgement.verdict for judgement in judgements}
    if "error" in words or not words:
        return "error", None
    return ("fail", 0.0) if "fail" in words else ("pass", 1.0)
