"""Filler text: sentences that sound like the facts among them and contain nothing that a task asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.suite.stress.draw import Draw

COLOURS = ("amber", "copper", "ivory", "indigo", "olive", "russet", "silver", "teal", "umber", "violet")
PLACES = ("bridge", "cairn", "ford", "gully", "harbour", "meadow", "orchard", "quarry", "ridge", "spinney")
"""A code consists of a colour, a place and a two-digit number; nothing else in the texts has that form."""

_WHO = (
    "the warden",
    "an old guide",
    "one of the surveyors",
    "the clerk",
    "a visitor",
    "the night shift",
    "the carrier",
)
_WHEN = ("last spring", "in a dry year", "before the flood", "on a market day", "after the first snow", "years ago")
_DID = (
    "counted the steps down to the water and came to a different number each time",
    "left a lantern at the gate, and nobody has asked for it since",
    "wrote down the weather and forgot the date",
    "mended the fence with whatever lay about",
    "asked for a better map and was given a longer one",
    "found the bench too cold to sit on for long",
    "took the long way round because the short one was under water",
    "heard a bell from the valley and could not say which",
)
_THINGS = ("The handrail", "The signpost", "The culvert", "The weighing house", "The lower path", "The tool shed")
_STATE = (
    "has been painted twice and needs it a third time",
    "leans a little, as it did when it was new",
    "is dry at noon and wet by evening",
    "was moved by two paces and is still in the way",
    "belongs to nobody who could be found",
    "has a number that is on no list",
)


def draw_code(draw: Draw) -> str:
    """Draw a code such as `amber-meadow-21`."""
    return f"{draw.pick_item(COLOURS)}-{draw.pick_item(PLACES)}-{draw.draw_between(10, 99)}"


def draw_codes(draw: Draw, count: int) -> list[str]:
    """Draw *count* different codes."""
    codes: dict[str, None] = {}
    while len(codes) < count:
        codes[draw_code(draw)] = None
    return [*codes]


def draw_sentence(draw: Draw) -> str:
    """Draw a sentence of about 80 characters."""
    if draw.draw_below(2):
        who = draw.pick_item(_WHO)
        return f"{draw.pick_item(_WHEN).capitalize()} {who} {draw.pick_item(_DID)}."
    return f"{draw.pick_item(_THINGS)} {draw.pick_item(_STATE)}, {draw.pick_item(_WHO)} says."


def draw_lines(draw: Draw, count: int, facts: Mapping[int, str]) -> Iterator[str]:
    """Yield *count* lines: the text of *facts* at its index, filler sentences elsewhere."""
    for index in range(count):
        yield facts[index] if index in facts else draw_sentence(draw)


def draw_text(draw: Draw, count: int, facts: Mapping[int, str]) -> str:
    """Return the lines of `draw_lines` as the content of a file."""
    return "\n".join(draw_lines(draw, count, facts)) + "\n"
