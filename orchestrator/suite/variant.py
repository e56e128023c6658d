"""Variants: configurations that are compared over the same tasks, repetitions and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from store.errors import UsageError
from store.events import Json


@attrs.frozen(kw_only=True)
class Variant:
    """One configuration under test: what it sets otherwise than the sweep's own."""

    id: str
    overrides: Mapping[str, Json] = attrs.field(factory=dict)
    """Measured keys by their dotted names, such as `compaction.threshold`."""


def find_variant(variants: Sequence[str], wanted: str, *, sweep: str, noun: str = "variant") -> str:
    """The variant called *wanted* among those that *sweep* has; *noun* is what the sweep calls one.

    Raises:
        UsageError: it has no such variant, with the nearest name; or none at all.
    """
    if wanted in variants:
        return wanted
    from store.documents.structure import suggest_nearest

    if not variants:
        raise UsageError(f"sweep {sweep} has no {noun}s", f"Name it without one: {sweep}.")
    raise UsageError(
        f"sweep {sweep} has no {noun} {wanted!r}{suggest_nearest(wanted, variants)}", f"It has {', '.join(variants)}."
    )
