"""What is played offline: which fixtures their own `replay` answers, and which a target's cassette does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from orchestrator.lab.cells import Cell, Skip, find_mode_skip
from orchestrator.lab.model import REPLAY, Lab, LabCase, Target
from orchestrator.lab.recordings.cassettes import explain_stale, find_cassette
from orchestrator.lab.selection import Selection
from providers.base import Answer, Origin, Request
from providers.decisions.flow import run_flow
from providers.decisions.player import AnswerPlayer, AnswersByNode, HandWritten, Reread, find_answer_reader
from providers.recording.divergence import NotRecorded
from store.errors import UsageError

Key = tuple[str, str]


@attrs.frozen(kw_only=True)
class PlaybackPlan:
    """The cells of an offline sweep, and who plays their answers."""

    cells: tuple[Cell, ...]
    player: AnswerPlayer


async def plan_playback(lab: Lab, selection: Selection) -> PlaybackPlan:
    """Look for the answers of every chosen fixture. Nobody is asked, and nothing is started.

    A fixture whose `replay` answers every node that its flow comes to has one run, under the target `replay`, and so
    has any fixture of a lab without targets. Others have one for each target: what their `replay` does not answer, the
    target's cassette does.

    Raises:
        UsageError: cassettes that cannot be read, all of them at once; or nothing is left to run.
    """
    cells: list[Cell] = []
    answers: dict[Key, AnswersByNode] = {}
    bad: list[str] = []
    for fixture in selection.cases:
        hand = _read_replay(fixture)
        skip = find_mode_skip(fixture, "offline")
        if skip is not None or not lab.targets or await _is_self_answering(lab, fixture, hand):
            if selection.replay:
                cells.append(_make_own_cell(lab, fixture, skip))
                answers[fixture.case_id, REPLAY] = hand
            continue
        for target in selection.targets:
            try:
                cell, recorded = _make_target_cell(lab, fixture, target)
            except UsageError as error:
                bad.append(str(error))
                continue
            cells.append(cell)
            answers[cell.key] = {**recorded, **hand}
    if bad:
        raise UsageError(
            "\n".join(bad), "`evalctl lab record` writes them anew; without the file a run is skipped as `no_cassette`."
        )
    if not cells:
        why = "only cassettes of targets answer the chosen fixtures"
        if not selection.replay:
            why = f"rules or their own replay answer the chosen fixtures, which is the target {REPLAY}"
        raise UsageError(f"--target: {why}", f"Leave it out, or name another: {', '.join([REPLAY, *lab.targets])}.")
    return PlaybackPlan(cells=tuple(cells), player=AnswerPlayer(answers, _find_rereaders(lab, cells)))


async def find_self_answering_cases(lab: Lab, fixtures: Iterable[LabCase]) -> frozenset[str]:
    """The cases of those *fixtures* whose own `replay`, or a rule, answers all that their flow asks for offline: of
    them no cassette is ever played.
    """
    by_case = {fixture.case_id: fixture for fixture in fixtures}
    return frozenset(
        [case for case, fixture in by_case.items() if await _is_self_answering(lab, fixture, _read_replay(fixture))]
    )


def _read_replay(fixture: LabCase) -> dict[str, HandWritten]:
    """The fixture's own answers, by node."""
    return {node: HandWritten(value) for node, value in fixture.replay.items()}


async def _is_self_answering(lab: Lab, fixture: LabCase, hand: Mapping[str, HandWritten]) -> bool:
    """Whether the fixture's own answers are all that its flow asks for: it is run to see."""
    player = AnswerPlayer({(fixture.case_id, REPLAY): hand}, {})

    async def ask_nothing(request: Request) -> Answer:
        return await player.answer(request, lambda _item: None)

    origin = Origin(suite_id=lab.id, case_id=fixture.case_id, repetition=0, variant=REPLAY)
    try:
        await run_flow(
            lab.daemon.capabilities[fixture.capability],
            fixture.input,
            ask_of=lambda _name: ask_nothing,
            origin=origin,
            clock=None,
        )
    except NotRecorded:
        return False
    return True


def _make_own_cell(lab: Lab, fixture: LabCase, skip: Skip | None) -> Cell:
    hint = "its replay answers no such node, and the lab has no targets whose cassettes could"
    return Cell(
        case=fixture,
        target=REPLAY,
        capability=lab.daemon.capabilities[fixture.capability],
        skip=skip,
        unanswered=Skip(reason="no_cassette", message=hint),
    )


def _make_target_cell(lab: Lab, fixture: LabCase, target: Target) -> tuple[Cell, AnswersByNode]:
    """The cell, and what the target's cassette holds.

    Raises:
        UsageError: it cannot be read.
    """
    shown = fixture.cassette_path(target.id)
    cell = Cell(
        case=fixture,
        target=target.id,
        aim=target,
        capability=lab.daemon.capabilities[fixture.capability].replace_model(target.backend, target.model),
    )
    found = find_cassette(lab, fixture, target.id, name=str(lab.root / shown))
    if found is None:
        missing = Skip(reason="no_cassette", message=f"there is no {shown}; `lab record` writes one")
        return attrs.evolve(cell, unanswered=missing), {}
    cassette, sha = found
    if (why := explain_stale(cassette, fixture)) is not None:
        return attrs.evolve(cell, skip=Skip(reason="stale", message=f"{shown}: {why}; `lab record` renews it")), {}
    lacking = Skip(reason="no_cassette", message=f"{shown} does not hold it; `lab record` renews it")
    return attrs.evolve(cell, recorded=sha, unanswered=lacking), cassette.answers


def _find_rereaders(lab: Lab, cells: Iterable[Cell]) -> dict[str, Reread]:
    """How the recorded answers of each target's backend are read."""
    aims = {cell.aim.id: cell.aim for cell in cells if cell.aim is not None and cell.recorded is not None}
    found = {}
    for name, aim in aims.items():
        backend = lab.daemon.backends[aim.backend]
        found[name] = find_answer_reader(backend.kind, backend.base_url)
    return found
