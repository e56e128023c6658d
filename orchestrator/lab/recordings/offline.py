"""The playback plan of an offline sweep: which cases their own `replay` answers, and which need a target's cassette."""

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

CellKey = tuple[str, str]
"""Case id and variant."""


@attrs.frozen(kw_only=True)
class PlaybackPlan:
    """The cells of an offline sweep and the player of their answers."""

    cells: tuple[Cell, ...]
    player: AnswerPlayer


async def plan_playback(lab: Lab, selection: Selection) -> PlaybackPlan:
    """Find the recorded answers of every selected case, without calls and without starting a program.

    A case has one run, under the target `replay`, if its `replay` answers every node that its flow reaches or if the
    lab has no targets. Any other case has one run per target: the target's cassette answers the nodes that `replay`
    does not.

    Raises:
        UsageError: cassettes cannot be read (one error for all of them), or no run is left.
    """
    cells: list[Cell] = []
    answers: dict[CellKey, AnswersByNode] = {}
    errors: list[str] = []
    for case in selection.cases:
        replay = _read_replay(case)
        skip = find_mode_skip(case, "offline")
        if skip is not None or not lab.targets or await _is_self_answering(lab, case, replay):
            if selection.replay:
                cells.append(_make_own_cell(lab, case, skip))
                answers[case.case_id, REPLAY] = replay
            continue
        for target in selection.targets:
            try:
                cell, recorded = _make_target_cell(lab, case, target)
            except UsageError as error:
                errors.append(str(error))
                continue
            cells.append(cell)
            answers[cell.key] = {**recorded, **replay}
    if errors:
        raise UsageError(
            "\n".join(errors), "`evalctl lab record` rewrites them; without the file a run is skipped as `no_cassette`."
        )
    if not cells:
        reason = "only targets' cassettes answer the selected fixtures"
        if not selection.replay:
            reason = f"rules or their own replay answer the selected fixtures, so their target is {REPLAY}"
        raise UsageError(f"--target: {reason}", f"Leave it out, or name another: {', '.join([REPLAY, *lab.targets])}.")
    return PlaybackPlan(cells=tuple(cells), player=AnswerPlayer(answers, _find_rereaders(lab, cells)))


async def find_self_answering_cases(lab: Lab, cases: Iterable[LabCase]) -> frozenset[str]:
    """Find the ids of those *cases* whose own `replay`, or a rule, answers their whole flow.

    Their cassettes are never played.
    """
    by_id = {case.case_id: case for case in cases}
    return frozenset(
        [case_id for case_id, case in by_id.items() if await _is_self_answering(lab, case, _read_replay(case))]
    )


def _read_replay(case: LabCase) -> dict[str, HandWritten]:
    """Return the case's own answers by node."""
    return {node: HandWritten(value) for node, value in case.replay.items()}


async def _is_self_answering(lab: Lab, case: LabCase, replay: Mapping[str, HandWritten]) -> bool:
    """Return whether the case's own answers suffice for its flow; runs the flow to find out."""
    player = AnswerPlayer({(case.case_id, REPLAY): replay}, {})

    async def ask_nothing(request: Request) -> Answer:
        return await player.answer(request, lambda _item: None)

    origin = Origin(suite_id=lab.id, case_id=case.case_id, repetition=0, variant=REPLAY)
    try:
        await run_flow(
            lab.daemon.capabilities[case.capability],
            case.input,
            ask_of=lambda _name: ask_nothing,
            origin=origin,
            clock=None,
        )
    except NotRecorded:
        return False
    return True


def _make_own_cell(lab: Lab, case: LabCase, skip: Skip | None) -> Cell:
    hint = "its replay has no answer for this node, and the lab has no targets whose cassettes could have one"
    return Cell(
        case=case,
        target=REPLAY,
        capability=lab.daemon.capabilities[case.capability],
        skip=skip,
        unanswered=Skip(reason="no_cassette", message=hint),
    )


def _make_target_cell(lab: Lab, case: LabCase, target: Target) -> tuple[Cell, AnswersByNode]:
    """Make the cell, with the answers of the target's cassette.

    Raises:
        UsageError: the cassette cannot be read.
    """
    path = case.cassette_path(target.id)
    cell = Cell(
        case=case,
        target=target.id,
        aim=target,
        capability=lab.daemon.capabilities[case.capability].replace_model(target.backend, target.model),
    )
    recorded = find_cassette(lab, case, target.id, name=str(lab.root / path))
    if recorded is None:
        missing = Skip(reason="no_cassette", message=f"there is no {path}; `lab record` writes one")
        return attrs.evolve(cell, unanswered=missing), {}
    cassette, sha256 = recorded
    if (reason := explain_stale(cassette, case)) is not None:
        return attrs.evolve(cell, skip=Skip(reason="stale", message=f"{path}: {reason}; `lab record` renews it")), {}
    incomplete = Skip(reason="no_cassette", message=f"{path} has no answer for it; `lab record` renews it")
    return attrs.evolve(cell, recorded=sha256, unanswered=incomplete), cassette.answers


def _find_rereaders(lab: Lab, cells: Iterable[Cell]) -> dict[str, Reread]:
    """Find the answer reader of each target's backend, by target."""
    aims = {cell.aim.id: cell.aim for cell in cells if cell.aim is not None and cell.recorded is not None}
    readers = {}
    for name, aim in aims.items():
        backend = lab.daemon.backends[aim.backend]
        readers[name] = find_answer_reader(backend.kind, backend.base_url)
    return readers
