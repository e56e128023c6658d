"""Variants: configurations that one sweep compares over the same tasks, repetitions and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from store.errors import UsageError
from store.events import Json


@attrs.frozen(kw_only=True)
class Variant:
    """One configuration under test, as differences from the sweep's own configuration."""

    id: str
    overrides: Mapping[str, Json] = attrs.field(factory=dict)
    """Measured keys by their dotted names, such as `compaction.threshold`."""


def find_variant(variants: Sequence[str], wanted: str, *, sweep: str, noun: str = "variant") -> str:
    """Return *wanted* if *sweep* has a variant of that id.

    Args:
        variants: the ids of the sweep's variants.
        wanted: the id to look for.
        sweep: the sweep's name, for the message.
        noun: the word that the sweep's kind uses for a variant.

    Raises:
        UsageError: the sweep has no such variant (names the nearest one) or no variants at all.
    """
    if wanted in variants:
        return wanted
    from store.documents.structure import suggest_nearest  # noqa: PLC0415 - start-up: loads cattrs

    if not variants:
        raise UsageError(f"sweep {sweep} has no {noun}s", f"Leave the {noun} out: {sweep}.")
    raise UsageError(
        f"sweep {sweep} has no {noun} {wanted!r}{suggest_nearest(wanted, variants)}", f"It has {', '.join(variants)}."
    )
