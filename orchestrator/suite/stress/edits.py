"""Task with repeated edits of one file: long notes, each with one change to a stock list that counts its revisions."""

from __future__ import annotations

import re

from orchestrator.suite.stress import checks
from orchestrator.suite.stress.draw import Draw
from orchestrator.suite.stress.prose import draw_text
from orchestrator.suite.stress.task import GeneratedTask, Turns

BINS = 30
NOTES = 10
CHANGED = 6
"""Number of bins that change: fewer than notes, so that some bins change more than once."""
LINES = 36
"""Lines of one note."""
REVISION = 40
STOCK = "stock.ini"

_ITEMS = (
    "bolts",
    "brackets",
    "cable ties",
    "clamps",
    "copper wire",
    "fuses",
    "hinges",
    "lamp glass",
    "rope",
    "washers",
)
_IN = "{count} pieces were added to bin {number}; the list does not know it yet."
_OUT = "{count} pieces were taken out of bin {number}, which the list has still to be told."
_QUANTITY = re.compile(r"quantity = (\d+)")

PROMPT = f"""\
{STOCK} is a stock list. notes/ holds {NOTES} notes, note-01.txt to note-{NOTES:02}.txt. Each note is long and tells \
of one change of one quantity, in pieces added or taken out.

Go through the notes in their order, one at a time: read the note as a whole, then make two edits of {STOCK} with \
edit_file before you open the next one. The first brings the quantity of that bin up to date. The second raises the \
revision in the first line by 1: it counts the notes that the list has taken in. Each edit returns the sha256 that the \
next one needs.

Never rewrite the list with write_file, and change nothing else."""


def make_edits_task(seed: int) -> GeneratedTask:
    """Make the task of *seed*."""
    draw = Draw(seed)
    sections = {
        number: f"[bin-{number:02}]\nitem = {draw.pick_item(_ITEMS)}\nquantity = {draw.draw_between(100, 400)}\n"
        for number in range(1, BINS + 1)
    }
    stock = "\n".join([f"revision = {REVISION}\n", *sections.values()])
    fixture = {STOCK: stock}
    changed = draw.draw_sample(range(1, BINS + 1), CHANGED)
    turns = Turns(prompt=PROMPT)
    turns.add_read(STOCK, stock)
    for index in range(NOTES):
        number = changed[index] if index < CHANGED else draw.pick_item(changed)
        count, added = draw.draw_between(11, 49), bool(draw.draw_below(2))
        change = (_IN if added else _OUT).format(count=count, number=number)
        path = f"notes/note-{index + 1:02}.txt"
        fixture[path] = draw_text(draw, LINES, {draw.draw_between(3, LINES - 3): change})
        turns.add_read(path, fixture[path])
        section = sections[number]
        sections[number] = _change_section(section, count if added else -count)
        stock = turns.add_edit(STOCK, stock, section, sections[number])
        stock = turns.add_edit(STOCK, stock, f"revision = {REVISION + index}", f"revision = {REVISION + index + 1}")
    return GeneratedTask(
        id="repeated-edits",
        prompt=PROMPT,
        fixture=fixture,
        max_turns=90,
        max_tokens=2_000_000,
        max_tool_calls=110,
        verifiers=[
            checks.make_file_check("result", STOCK, stock),
            checks.make_tool_rule("read-first", type="before", first="read_file", then="edit_file"),
            checks.make_tool_rule("not-rewritten", type="never", tool="write_file"),
            checks.make_scope_check("scope", STOCK),
        ],
        tags=["long-context", "edit"],
        answers=turns.end_play(f"All {NOTES} notes are in {STOCK}, which is at revision {REVISION + NOTES}."),
        checkpoint={
            "goal": f"Go through notes/note-01.txt to note-{NOTES:02}.txt in order and bring {STOCK} up to date.",
            "instructions": [
                "Per note two edits with edit_file: the bin's quantity, then the revision in the first line, by 1.",
                f"Never rewrite {STOCK} with write_file; change nothing else.",
            ],
            "accomplished": [f"The revision of {STOCK} tells how many notes are in: it began at {REVISION}."],
            "nextSteps": [f"Read {STOCK} for its sha256, then go on with the next note."],
            "relevantFiles": [STOCK, "notes/"],
        },
    )


def _change_section(section: str, by: int) -> str:
    return _QUANTITY.sub(lambda match: f"quantity = {int(match[1]) + by}", section)
