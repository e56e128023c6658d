"""Chain walks: each segment names the next one, so that the segments must be read one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from orchestrator.suite.stress import checks
from orchestrator.suite.stress.draw import Draw
from orchestrator.suite.stress.prose import draw_code, draw_codes, draw_text
from orchestrator.suite.stress.task import GeneratedTask, Turns
from store.events import Json

SEGMENTS = 16
LINES = 36
"""Lines of one segment. With line numbers they have under 4,000 characters, the part that a summary sees."""
DECOYS = 5
"""Number of foreign codes in one segment."""

REPORT = "report.txt"
HEADER = "# walk-report"
FOOTER = "-- end of walk --"
RULES = ("r1-line-shape", "r2-header", "r3-footer")

_CODE = (
    "The code of this segment is {code}.",
    "Whoever passes here gives {code}, which is the code for this place.",
    "Cut into the stone at this very spot stands its code, {code}.",
    "For the segment you are in, the code reads {code}.",
    "This segment answers to the code {code}.",
)
_NEXT = (
    "From here the walk goes on to {file}.",
    "The segment after this one is {file}.",
    "Those who go on from this place find their way in {file}.",
    "Next on the walk comes {file}.",
)
_DECOY = (
    "A code {code} is painted on a crate; the crate came from elsewhere.",
    "The code of a segment that was closed long ago, {code}, still hangs in the hut.",
    "In the guest book somebody asks what {code} is the code of; not of this place.",
    "A stone with the code {code} lies here and belongs to another walk.",
)
_END = "The walk ends at this segment; no other comes after it."


@attrs.frozen(kw_only=True)
class Chain:
    """A chain of segments, in the order of the walk."""

    names: Sequence[str]
    codes: Sequence[str]
    files: Mapping[str, str]
    """Contents by path."""

    @property
    def start(self) -> str:
        """Path of the first segment."""
        return self.locate_segment(0)

    def locate_segment(self, index: int) -> str:
        """Return the path of the segment at *index*."""
        return f"segments/{self.names[index]}"


def make_chain(seed: int, segments: int = SEGMENTS) -> Chain:
    """Make the chain of *seed*."""
    draw = Draw(seed)
    numbers = draw.draw_sample(range(100, 1000), segments)
    names = [f"segment-{number}.txt" for number in numbers]
    own = draw_codes(draw, segments)
    files: dict[str, str] = {}
    for index, (name, its_code) in enumerate(zip(names, own, strict=True)):
        places = draw.draw_sample(range(2, LINES), 2 + DECOYS)
        following = _END
        if index + 1 < segments:
            following = draw.pick_item(_NEXT).format(file=f"segments/{names[index + 1]}")
        facts = {0: f"This is {name}.", places[0]: draw.pick_item(_CODE).format(code=its_code), places[1]: following}
        facts |= {place: draw.pick_item(_DECOY).format(code=_draw_foreign_code(draw, own)) for place in places[2:]}
        files[f"segments/{name}"] = draw_text(draw, LINES, facts)
    return Chain(names=names, codes=own, files=files)


def _draw_foreign_code(draw: Draw, own: Sequence[str]) -> str:
    while True:
        code = draw_code(draw)
        if code not in own:
            return code


def write_report_line(codes: Sequence[str], *, omitted: str | None = None) -> str:
    """Render the report that the rules require for *codes*; *omitted* leaves one of `RULES` out."""
    shaped = [f"{number:02}~{code.upper()}" for number, code in enumerate(codes, 1)]
    if omitted == "r1-line-shape":
        shaped = [f"{number:02} {code}" for number, code in enumerate(codes, 1)]
    header = [] if omitted == "r2-header" else [HEADER]
    footer = [] if omitted == "r3-footer" else [FOOTER]
    return "\n".join([*header, *shaped, *footer]) + "\n"


def make_rules_task(number: int, seed: int) -> GeneratedTask:
    """Make an instance of chain-walk-rules: three rules that are stated once, before the walk."""
    chain = make_chain(seed)
    shape = (
        "There is one line for every segment, in the order of the walk: its number in the walk as two digits, a "
        "tilde, and its code in capital letters, with nothing before, between or after them. For a first segment with "
        "the code silver-birch-10 that would be `01~SILVER-BIRCH-10`"
    )
    header = f"The first line of the file, before all of these, is `{HEADER}`"
    footer = (
        f"The last line of the file, after all of these, is `{FOOTER}`, and it ends with a single newline, after "
        "which nothing follows"
    )
    rules = [shape, header, footer]
    stated = "\n".join(f"{index}. {rule}." for index, rule in enumerate(rules, 1))
    prompt = (
        f"{_describe_walk(chain)}\n\nAt the end of the walk write {REPORT}, with one call of write_file. "
        f"These three rules for "
        "it are stated here and nowhere else; backticks only show where a text begins and ends:\n\n"
        f"{stated}\n\nChange nothing else."
    )
    return _make_task(
        f"chain-walk-rules-{number:02}",
        prompt,
        chain,
        written=write_report_line(chain.codes),
        rules=rules,
        verifiers=[
            checks.make_program_check("r1-line-shape", checks.LINE_SHAPE, REPORT, str(SEGMENTS)),
            checks.make_program_check("r2-header", checks.HEADER, REPORT),
            checks.make_program_check("r3-footer", checks.FOOTER, REPORT),
        ],
    )


def make_format_rule_task(seed: int) -> GeneratedTask:
    """Make the first chain walk. Its rule can be misread, which is kept so that earlier results stay comparable."""
    chain = make_chain(seed)
    rule = f"Every line of {REPORT} has the form NN|CODE: where NN is the segment's number in the walk"
    prompt = (
        f"{_describe_walk(chain)}\n\nAt the end of the walk write {REPORT}, with one line for every segment, "
        f"in the order of "
        f"the walk. {rule}, two digits, beginning with 01.\n\nChange nothing else."
    )
    return _make_task(
        "chain-walk-format-rule",
        prompt,
        chain,
        written="".join(f"{number:02}|{code}:\n" for number, code in enumerate(chain.codes, 1)),
        rules=[rule],
        verifiers=[checks.make_program_check("line-form", checks.LINE_FORM, REPORT, str(SEGMENTS))],
    )


def _describe_walk(chain: Chain) -> str:
    return (
        f"segments/ holds the {len(chain.names)} segments of a walk, a file each. Begin with {chain.start}. Somewhere "
        "in its text every segment tells its own code (two words and a number, with hyphens between them) and which "
        "segment comes next; codes of other places are mentioned as well and do not count. Read one segment after the "
        "other with read_file, each as a whole, until one says that the walk ends."
    )


def _make_task(
    name: str,
    prompt: str,
    chain: Chain,
    *,
    written: str,
    rules: Sequence[str],
    verifiers: Sequence[Mapping[str, Json]],
) -> GeneratedTask:
    turns = Turns(prompt=prompt)
    for index in range(len(chain.names)):
        turns.add_read(chain.locate_segment(index), chain.files[chain.locate_segment(index)])
    turns.add_write(REPORT, written)
    return GeneratedTask(
        id=name,
        prompt=prompt,
        fixture=chain.files,
        max_turns=60,
        max_tokens=1_500_000,
        max_tool_calls=80,
        verifiers=[
            checks.make_codes_check("codes", REPORT, chain.codes),
            *verifiers,
            checks.make_scope_check("scope", REPORT),
        ],
        tags=["long-context", "chain-walk"],
        answers=turns.end_play(f"The walk has {len(chain.names)} segments; their codes are in {REPORT}."),
        checkpoint={
            "goal": f"Walk segments/ from {chain.start} to its end, reading each segment as a whole, then write "
            f"{REPORT} with one call of write_file. Change nothing else.",
            "instructions": [*rules],
            "accomplished": ["The segments up to the latest one were read, and their codes noted in order."],
            "nextSteps": ["Read the segment that the latest one names.", f"Write {REPORT} at the end of the walk."],
            "relevantFiles": ["segments/", REPORT],
        },
    )
