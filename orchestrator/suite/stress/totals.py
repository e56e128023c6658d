"""Task with running totals: each log adds to a number that must be carried on, among entries that do not count."""

from __future__ import annotations

from orchestrator.suite.stress import checks
from orchestrator.suite.stress.draw import Draw
from orchestrator.suite.stress.prose import draw_sentence
from orchestrator.suite.stress.task import GeneratedTask, Turns

DAYS = 12
LINES = 42
"""Lines of one log."""
COUNTED = 5
REFUSED = 4

PROMPT = f"""\
logs/ holds the logs of {DAYS} days, day-01.log to day-{DAYS:02}.log. An entry such as "delivery of 14 crates, \
accepted" adds to the total; deliveries that were refused, and all other entries, do not.

Read the logs in their order, one at a time and each as a whole. Then write totals.txt with a line for every day, such \
as "day-01 73": the day, a space, and the number of crates accepted on all days up to and including this one. Work it \
out yourself, and change nothing else."""


def make_totals_task(seed: int) -> GeneratedTask:
    """Make the task of *seed*."""
    draw = Draw(seed)
    fixture: dict[str, str] = {}
    total = 0
    totals: list[str] = []
    turns = Turns(prompt=PROMPT)
    for day in range(1, DAYS + 1):
        places = draw.draw_sample(range(LINES), COUNTED + REFUSED)
        entries = {}
        for index, place in enumerate(places):
            crates, accepted = draw.draw_between(3, 29), index < COUNTED
            total += crates if accepted else 0
            entries[place] = f"delivery of {crates} crates, {'accepted' if accepted else 'refused'}"
        minutes = 6 * 60
        lines = []
        for place in range(LINES):
            minutes += draw.draw_between(5, 25)
            entry = entries[place] if place in entries else draw_sentence(draw)
            lines.append(f"{minutes // 60:02}:{minutes % 60:02} {entry}\n")
        path = f"logs/day-{day:02}.log"
        fixture[path] = "".join(lines)
        totals.append(f"day-{day:02} {total}")
        turns.add_read(path, fixture[path])
    turns.add_write("totals.txt", "\n".join(totals) + "\n")
    return GeneratedTask(
        id="running-totals",
        prompt=PROMPT,
        fixture=fixture,
        max_turns=50,
        max_tokens=1_000_000,
        max_tool_calls=60,
        verifiers=[
            checks.make_lines_check("totals", "totals.txt", totals),
            checks.make_scope_check("scope", "totals.txt"),
        ],
        tags=["long-context", "totals"],
        answers=turns.end_play(f"After {DAYS} days {total} crates have been accepted."),
        checkpoint={
            "goal": f"Read logs/day-01.log to day-{DAYS:02}.log in order, then write totals.txt: a line for every day, "
            "the day, a space, and the crates accepted up to and including it.",
            "instructions": ["Only deliveries that were accepted count.", "Change nothing else."],
            "accomplished": ["The totals of the days that were read are noted."],
            "nextSteps": ["Go on with the next day."],
            "relevantFiles": ["logs/", "totals.txt"],
        },
    )
