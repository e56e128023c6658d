"""Masks secrets in a report: texts of models, tools and suites are scanned before they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import attrs

from store.secrets.scanner import Cleaner

ReportT = TypeVar("ReportT")
"""A report of any kind: an attrs value with `notes`."""


def clean_report(report: ReportT, cleaner: Cleaner) -> ReportT:
    """Return *report* with secrets masked, and a note of how many marks there are.

    Those that *cleaner* has made count, here and before, and those made on the way into the store.
    """
    clean: Any = clean_texts(report, cleaner)
    marks = cleaner.replaced + cleaner.marked
    number = marks.total()
    if number:
        shapes = ", ".join(f"{name} {times}" for name, times in sorted(marks.items()))
        note = f"secrets: {number} texts that look like credentials were replaced by marks in this report ({shapes})."
        clean = attrs.evolve(clean, notes=(*clean.notes, note))
    masked: ReportT = clean
    return masked


def clean_texts(value: Any, cleaner: Cleaner) -> Any:
    """Mask each text in *value*, attrs or JSON. Texts are scanned alone: a hash below a key `token` is no secret."""
    if isinstance(value, str):
        return cleaner.mask_text(value)
    if attrs.has(type(value)):
        fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
        changed = {name: new for name, old in fields.items() if (new := clean_texts(old, cleaner)) is not old}
        return attrs.evolve(value, **changed) if changed else value
    if isinstance(value, Mapping):
        return {clean_texts(name, cleaner): clean_texts(inner, cleaner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        texts = [clean_texts(inner, cleaner) for inner in value]
        return value if all(new is old for new, old in zip(texts, value, strict=True)) else type(value)(texts)
    return value
