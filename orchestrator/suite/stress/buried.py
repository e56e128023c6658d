"""Tasks with facts in long files: a few relevant lines among hundreds of similar ones, some corrected later."""

from __future__ import annotations

from orchestrator.suite.stress import checks
from orchestrator.suite.stress.draw import Draw
from orchestrator.suite.stress.prose import draw_codes, draw_text
from orchestrator.suite.stress.task import GeneratedTask, Turns

MANUAL_LINES = 720
READ_LINES = 200
"""Lines that one call of the script reads."""
REPORT_LINES = 260
STATIONS = ("north", "east", "south", "west")

MANUAL = "manual.txt"
ANSWERS = "answers.txt"

MANUAL_PROMPT = f"""\
{MANUAL} is long. Somewhere in it stand the opening hours of the upper lock, the load that the footbridge bears, the \
day on which the pump is serviced, and the name of the keeper of the keys. Some of these are corrected further down; \
what is said last holds.

Write {ANSWERS} with exactly these four lines, in this order, with the facts in the place of the dots:

hours: ... to ...
load: ... kg
service: ...
keeper: ...

Hours are whole numbers such as 7, the day is a day of the week, and the name has one word. Change nothing else."""

REPORTS_PROMPT = f"""\
reports/ holds a long report of each of four stations. Each tells, in a single line, which code the station's relay \
had and to which station the relay was sent on. Two of the stations sent their relays to each other. Find these two.

Write {ANSWERS} with exactly two lines, one for each of them, sorted by the station's name, such as \
"east amber-ford-10": the station, a space, and the code of the relay that it sent. Change nothing else."""


def make_manual_task(seed: int) -> GeneratedTask:
    """Make the task with facts in one long file, two of them corrected later."""
    draw = Draw(seed)
    opens, load, keeper = (
        draw.draw_between(5, 9),
        draw.draw_between(20, 60) * 10,
        draw.pick_item(("Abel", "Edda", "Iven", "Ruth")),
    )
    day, earlier = draw.draw_sample(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"), 2)
    closes = opens + draw.draw_between(8, 11)
    facts = {
        83: f"The upper lock is open from {opens} to {closes}.",
        171: f"The footbridge bears {load + 150} kg, by the plate at its foot.",
        298: f"Every {earlier} the pump stands still for its service.",
        377: f"The lower lock is open from {opens + 1} to {closes - 2}, which is not what the upper one does.",
        455: f"Whoever needs a key asks {keeper}, the keeper of the keys.",
        541: f"Correction: the plate is old, and the footbridge bears {load} kg.",
        662: f"Correction: the pump is serviced on {day}, and no longer on {earlier}.",
    }
    content = draw_text(draw, MANUAL_LINES, facts)
    expected = [f"hours: {opens} to {closes}", f"load: {load} kg", f"service: {day}", f"keeper: {keeper}"]
    turns = Turns(prompt=MANUAL_PROMPT)
    for first in range(1, MANUAL_LINES, READ_LINES):
        turns.add_read(MANUAL, content[: len(content) // 4], startLine=first, lines=READ_LINES)
    turns.add_write(ANSWERS, "\n".join(expected) + "\n")
    return GeneratedTask(
        id="facts-in-a-manual",
        prompt=MANUAL_PROMPT,
        fixture={MANUAL: content},
        max_turns=30,
        max_tokens=600_000,
        max_tool_calls=40,
        verifiers=[checks.make_lines_check("answers", ANSWERS, expected), checks.make_scope_check("scope", ANSWERS)],
        tags=["long-context", "facts"],
        answers=turns.end_play("The four facts are in answers.txt; the load and the day are the corrected ones."),
        checkpoint={
            "goal": f"Find four facts in {MANUAL} and write {ANSWERS}: hours of the upper lock, load of the "
            "footbridge, day of the pump's service, keeper of the keys.",
            "instructions": [
                "What is said last holds.",
                "Lines, in this order: 'hours: N to N', 'load: N kg', 'service: DAY', 'keeper: NAME'.",
            ],
            "nextSteps": ["Read on, or search again for what is missing."],
            "relevantFiles": [MANUAL, ANSWERS],
        },
    )


def make_reports_task(seed: int) -> GeneratedTask:
    """Make the task whose facts answer the question only together, each in its own long file."""
    draw = Draw(seed)
    first, second, third, fourth = draw.shuffle_items(STATIONS)
    sent_to = {first: second, second: first, third: draw.pick_item((first, second)), fourth: third}
    relays = dict(zip(STATIONS, draw_codes(draw, len(STATIONS)), strict=True))
    fixture: dict[str, str] = {}
    turns = Turns(prompt=REPORTS_PROMPT)
    for station in STATIONS:
        place = draw.draw_between(40, REPORT_LINES - 40)
        fact = f"The relay {relays[station]} was packed on the cart and sent on to the station {sent_to[station]}."
        path = f"reports/{station}.txt"
        fixture[path] = draw_text(draw, REPORT_LINES, {place: fact})
        for start in (1, 1 + READ_LINES):
            turns.add_read(path, fixture[path][: len(fixture[path]) // 2], startLine=start, lines=READ_LINES)
    expected = [f"{station} {relays[station]}" for station in sorted((first, second))]
    turns.add_write(ANSWERS, "\n".join(expected) + "\n")
    return GeneratedTask(
        id="facts-across-reports",
        prompt=REPORTS_PROMPT,
        fixture=fixture,
        max_turns=30,
        max_tokens=800_000,
        max_tool_calls=40,
        verifiers=[checks.make_lines_check("answers", ANSWERS, expected), checks.make_scope_check("scope", ANSWERS)],
        tags=["long-context", "facts"],
        answers=turns.end_play(f"{first.capitalize()} and {second} sent their relays to each other."),
        checkpoint={
            "goal": "Find the two stations in reports/ that sent their relays to each other.",
            "instructions": [f"{ANSWERS}: two sorted lines, the station, a space, and the code of the relay it sent."],
            "nextSteps": ["Read the reports that are left."],
            "relevantFiles": ["reports/", ANSWERS],
        },
    )
