"""Task with truncated output: a command prints more than its tool returns, and the answer is in the missing part."""

from __future__ import annotations

from orchestrator.suite.stress import checks
from orchestrator.suite.stress.draw import Draw
from orchestrator.suite.stress.prose import draw_codes
from orchestrator.suite.stress.task import GeneratedTask, Turns

ENTRIES = 1400
"""Printed entries of about 60 characters each, far more than `bash` returns."""
LATEST_DRIFTING = 1180
FINDING = "finding.txt"

PROGRAM = '''\
"""Prints the journal of the relays: an entry for every reading, then how many there were."""

ENTRIES = {entries}
DRIFTING = {drifting}

state = {seed}
for number in range(1, ENTRIES + 1):
    state = (state * 1103515245 + 12345) % 2**31
    drift = DRIFTING.get(number)
    told = f"adrift, relay {{drift}}" if drift else f"steady within {{state % 900 / 100:.2f}} of its mark"
    print(f"reading {{number:04}} of the night at {{state // 64 % 24:02}} h: {{told}}")
print(f"{{ENTRIES}} readings")
'''

PROMPT = f"""\
`python3 journal.py` prints the journal of the night: {ENTRIES} readings, which is more than a command may return to \
you. A few of them report a relay that is adrift. Find all of these.

Write {FINDING} with a line for each of them, in the order of the journal, such as "0042 amber-ford-10": the number of \
the reading as printed, a space, and the code of the relay. Do not change journal.py or anything else."""


def make_overflow_task(seed: int) -> GeneratedTask:
    """Make the task of *seed*."""
    draw = Draw(seed)
    numbers = sorted([*draw.draw_sample(range(650, 1100), 3), draw.draw_between(200, 400), LATEST_DRIFTING])
    drifting = dict(zip(numbers, draw_codes(draw, len(numbers)), strict=True))
    journal = PROGRAM.format(entries=ENTRIES, drifting=drifting, seed=draw.draw_between(1, 2**30))
    expected = [f"{number:04} {code}" for number, code in drifting.items()]
    turns = Turns(prompt=PROMPT)
    turns.add_call("bash", {"command": "python3 journal.py"}, answer_chars=32_500)
    turns.add_call(
        "bash",
        {"command": "python3 journal.py | grep adrift"},
        answer_chars=500,
        text="The output is cut. I let grep pick the readings that matter.",
    )
    turns.add_write(FINDING, "\n".join(expected) + "\n")
    return GeneratedTask(
        id="truncated-output",
        prompt=PROMPT,
        fixture={"journal.py": journal},
        max_turns=20,
        max_tokens=400_000,
        max_tool_calls=30,
        allow=("write", "process"),
        verifiers=[checks.make_lines_check("finding", FINDING, expected), checks.make_scope_check("scope", FINDING)],
        tags=["long-context", "truncated-output"],
        answers=turns.end_play(
            f"{len(expected)} relays are adrift; most of them are in the part of the output that was cut."
        ),
        checkpoint={
            "goal": f"Find every reading of `python3 journal.py` that reports a relay adrift, and write {FINDING}: its "
            "number as printed, a space, and the relay's code, a line each, in order.",
            "instructions": ["Do not change journal.py."],
            "discoveries": ["The output is longer than what a command returns: filter it."],
            "nextSteps": ["python3 journal.py | grep adrift"],
            "relevantFiles": ["journal.py", FINDING],
        },
    )
