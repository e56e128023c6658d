"""From a task's verifiers to one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from store.errors import EvalctlError
from store.rows import Judgement, VerdictWord
from verifiers.base import Evidence, Verifier
from verifiers.pristine import protected_files


async def judge(verifiers: Sequence[Verifier], evidence: Evidence) -> tuple[Judgement, ...]:
    """Ask every verifier, one after the other; judgements in the order of *verifiers*.

    Those that only look are asked before the others, because a command may change what they look at. What a verifier
    cannot do for reasons of its own is its `error`; the others are asked all the same.
    """
    if all_only_look(verifiers):
        return tuple([await _ask(verifier, evidence) for verifier in verifiers])
    evidence = attrs.evolve(evidence, protected=protected_files(verifiers, evidence.fixture))
    looking_first = sorted(range(len(verifiers)), key=lambda place: not only_looks(verifiers[place]))
    said = {place: await _ask(verifiers[place], evidence) for place in looking_first}
    return tuple(said[place] for place in range(len(verifiers)))


def all_only_look(verifiers: Iterable[Verifier]) -> bool:
    """Whether no verifier starts a process or changes a file: then the fixture itself can be shown for a workspace
    that differs in nothing from it.
    """
    return all(map(only_looks, verifiers))


def only_looks(verifier: Verifier) -> bool:
    """Whether the verifier says that it only reads; one that says nothing may do anything."""
    return bool(getattr(verifier, "only_looks", False))


async def _ask(verifier: Verifier, evidence: Evidence) -> Judgement:
    try:
        return await verifier.verify(evidence)
    except (EvalctlError, OSError) as error:
        detail = {"reason": "failed", "message": str(error)}
        return Judgement(verifier=verifier.id, kind=verifier.kind, verdict="error", detail=detail)


def verdict_of(judgements: Iterable[Judgement]) -> tuple[VerdictWord, float | None]:
    """The verdict of a run and its composite.

    An error of any verifier makes the run an error without a composite: what was not checked is neither passed nor
    failed. Else all passed (1.0), or one failed (0.0). No judgement at all is an error: nothing was checked.
    """
    words = {judgement.verdict for judgement in judgements}
    if "error" in words or not words:
        return "error", None
    return ("fail", 0.0) if "fail" in words else ("pass", 1.0)
