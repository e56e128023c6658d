"""Markdown tables, drawn the same in every report. Cells are escaped, so that none becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from orchestrator.text import escape_markdown


def draw_section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Draw a table under the heading *title*, which is not escaped."""
    yield f"## {title}"
    yield ""
    yield from draw_table(head, rows)


def draw_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Draw a table, and an empty line after it."""
    yield f"| {' | '.join(map(escape_markdown, head))} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(escape_markdown, row))} |"
    yield ""
