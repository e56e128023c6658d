"""The registry of verifier kinds: built-in ones, imported when a suite names them, and entry points.

To add a kind, write a module with one class (see `base.py`) and add a line to `KINDS`. Another package offers a kind
through the entry point group `evalctl.verifiers`, with `api_version` on the class.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from store.errors import UsageError
from verifiers.base import VERIFIER_API

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

KINDS: dict[str, str] = {
    "command": "verifiers.command:Command",
    "file-equals": "verifiers.files:FileEquals",
    "file-contains": "verifiers.files:FileContains",
    "file-absent": "verifiers.files:FileAbsent",
    "tree-diff-within": "verifiers.tree_diff:TreeDiffWithin",
    "tool-sequence": "verifiers.tool_sequence:ToolSequence",
}
"""Kind -> module and class."""

ENTRY_POINT_GROUP = "evalctl.verifiers"

LOAD_FAILURES = (ImportError, AttributeError, SyntaxError, TypeError, ValueError, RuntimeError, OSError)
"""Exceptions that importing another package may raise."""


def find_verifier(kind: str) -> type:
    """Find the class of a verifier kind: a built-in, else an entry point. Imports nothing else.

    Raises:
        UsageError: the kind is unknown (lists the nearest), does not load, or has another API version.
    """
    if kind in KINDS:
        return _import_class(KINDS[kind])
    foreign = _scan_entry_points()  # scanned late: reading the metadata of all packages slows down the start
    if kind not in foreign:
        raise UsageError(f"unknown verifier kind {kind!r}", _suggest_kind(kind, [*KINDS, *foreign]))
    return _load_entry_point(foreign[kind])


def list_verifier_kinds() -> list[str]:
    """List all known kinds, built-in ones first, whether they can be loaded or not."""
    return [*KINDS, *sorted(_scan_entry_points().keys() - KINDS.keys())]


def _import_class(dotted: str) -> type:
    module, _, name = dotted.partition(":")
    verifier: type = getattr(import_module(module), name)
    return verifier


def _scan_entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - start-up: only a verifier of another package needs it

    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _load_entry_point(point: EntryPoint) -> type:
    owner = point.dist.name if point.dist is not None else point.value
    try:
        verifier = point.load()
    except LOAD_FAILURES as error:
        raise UsageError(
            f"verifier kind {point.name!r} of {owner} does not load: {type(error).__name__}: {error}",
            f"Update or remove {owner}.",
        ) from error
    version = getattr(verifier, "api_version", None)
    if not isinstance(verifier, type) or version != VERIFIER_API:
        raise UsageError(
            f"verifier kind {point.name!r} of {owner} has API version {version}, expected {VERIFIER_API}",
            f"Update {owner}, or evalctl.",
        )
    return verifier


def _suggest_kind(kind: str, known: list[str]) -> str:
    near = get_close_matches(kind, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return f"{hint}Kinds: {', '.join(sorted(known))}."
