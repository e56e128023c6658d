"""What is played offline: which fixtures their own `replay` answers, and which a target's cassette does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from orchestrator.lab.cells import Cell, Skip, not_in
from orchestrator.lab.model import REPLAY, Fixture, Lab, Target
from orchestrator.lab.recordings.cassettes import find, stale
from orchestrator.lab.selection import Selection
from providers.base import Answer, Origin, Request
from providers.decisions.flow import decide
from providers.decisions.player import Answers, HandWritten, Player, Reread, format_of
from providers.recording.divergence import NotRecorded
from store.errors import UsageError

Key = tuple[str, str]


@attrs.frozen(kw_only=True)
class Programme:
    """The cells of an offline sweep, and who plays their answers."""

    cells: tuple[Cell, ...]
    player: Player


async def programme(lab: Lab, selection: Selection) -> Programme:
    """Look for the answers of every chosen fixture. Nobody is asked, and nothing is started.

    A fixture whose `replay` answers every node that its flow comes to has one run, under the target `replay`, and so
    has any fixture of a lab without targets. Others have one for each target: what their `replay` does not answer, the
    target's cassette does.

    Raises:
        UsageError: cassettes that cannot be read, all of them at once; or nothing is left to run.
    """
    cells: list[Cell] = []
    answers: dict[Key, Answers] = {}
    bad: list[str] = []
    for fixture in selection.fixtures:
        hand = _by_hand(fixture)
        skip = not_in(fixture, "offline")
        if skip is not None or not lab.targets or await _complete(lab, fixture, hand):
            if selection.replay:
                cells.append(_own(lab, fixture, skip))
                answers[fixture.case_id, REPLAY] = hand
            continue
        for target in selection.targets:
            try:
                cell, recorded = _under(lab, fixture, target)
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
    return Programme(cells=tuple(cells), player=Player(answers, _formats(lab, cells)))


async def answered_by_themselves(lab: Lab, fixtures: Iterable[Fixture]) -> frozenset[str]:
    """The cases of those *fixtures* whose own `replay`, or a rule, answers all that their flow asks for offline: of
    them no cassette is ever played.
    """
    by_case = {fixture.case_id: fixture for fixture in fixtures}
    return frozenset([case for case, fixture in by_case.items() if await _complete(lab, fixture, _by_hand(fixture))])


def _by_hand(fixture: Fixture) -> dict[str, HandWritten]:
    """The fixture's own answers, by node."""
    return {node: HandWritten(value) for node, value in fixture.replay.items()}


async def _complete(lab: Lab, fixture: Fixture, hand: Mapping[str, HandWritten]) -> bool:
    """Whether the fixture's own answers are all that its flow asks for: it is run to see."""
    player = Player({(fixture.case_id, REPLAY): hand}, {})

    async def ask(request: Request) -> Answer:
        return await player.answer(request, lambda _item: None)

    origin = Origin(suite_id=lab.id, case_id=fixture.case_id, repetition=0, variant=REPLAY)
    try:
        await decide(
            lab.daemon.capabilities[fixture.capability],
            fixture.input,
            ask_of=lambda _name: ask,
            origin=origin,
            clock=None,
        )
    except NotRecorded:
        return False
    return True


def _own(lab: Lab, fixture: Fixture, skip: Skip | None) -> Cell:
    hint = "its replay answers no such node, and the lab has no targets whose cassettes could"
    return Cell(
        fixture=fixture,
        target=REPLAY,
        capability=lab.daemon.capabilities[fixture.capability],
        skip=skip,
        unanswered=Skip(reason="no_cassette", message=hint),
    )


def _under(lab: Lab, fixture: Fixture, target: Target) -> tuple[Cell, Answers]:
    """The cell, and what the target's cassette holds.

    Raises:
        UsageError: it cannot be read.
    """
    shown = fixture.cassette(target.id)
    cell = Cell(
        fixture=fixture,
        target=target.id,
        aim=target,
        capability=lab.daemon.capabilities[fixture.capability].aimed(target.backend, target.model),
    )
    found = find(lab, fixture, target.id, name=str(lab.root / shown))
    if found is None:
        missing = Skip(reason="no_cassette", message=f"there is no {shown}; `lab record` writes one")
        return attrs.evolve(cell, unanswered=missing), {}
    cassette, sha = found
    if (why := stale(cassette, fixture)) is not None:
        return attrs.evolve(cell, skip=Skip(reason="stale", message=f"{shown}: {why}; `lab record` renews it")), {}
    lacking = Skip(reason="no_cassette", message=f"{shown} does not hold it; `lab record` renews it")
    return attrs.evolve(cell, recorded=sha, unanswered=lacking), cassette.answers


def _formats(lab: Lab, cells: Iterable[Cell]) -> dict[str, Reread]:
    """How the recorded answers of each target's backend are read."""
    aims = {cell.aim.id: cell.aim for cell in cells if cell.aim is not None and cell.recorded is not None}
    found = {}
    for name, aim in aims.items():
        backend = lab.daemon.backends[aim.backend]
        found[name] = format_of(backend.kind, backend.base_url)
    return found
