from __future__ import annotations

import attrs
import pytest

from orchestrator.reports.clean import clean_report
from store.secrets.scanner import Cleaner


@attrs.frozen
class Page:
    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("texts", "counted"),
    [
        (("nothing",), None),
        (
            ("[redacted:OPENAI_API_KEY] was sent",),
            "1 texts",
        ),
        (("a [redacted:jwt]", "b [redacted:jwt] [redacted:MY_KEY]"), "3 texts"),
        (("[redacted:jwt]", "DB_PASSWORD=h7Gk2mQ9xZ4pL8wN"), "2 texts"),
        (("[redacted:named-secret]", "DB_PASSWORD=h7Gk2mQ9xZ4pL8wN"), "2 texts"),
    ],
)
def test_note_counts_the_marks_of_the_store_and_of_the_report(texts: tuple[str, ...], counted: str | None) -> None:
    notes = clean_report(Page(texts), Cleaner()).notes
    assert len(notes) == (counted is not None)
    assert counted is None or f"secrets: {counted}" in notes[0]


def test_note_names_each_mark_with_its_count() -> None:
    (note,) = clean_report(
        Page(("[redacted:named-secret] [redacted:MY_KEY]", "DB_PASSWORD=h7Gk2mQ9xZ4pL8wN")), Cleaner()
    ).notes
    assert note.endswith("in this report (MY_KEY 1, named-secret 2).")
