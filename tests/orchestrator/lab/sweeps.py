"""Sweeps of labs in this process, against providers that are plain functions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from orchestrator.engine import sweep
from orchestrator.engine.kind import PricedProvider
from orchestrator.engine.worker import SweepEnd, WorkerSetup
from orchestrator.lab.cells import Cell
from orchestrator.lab.kind import LabKind
from orchestrator.lab.model import Lab
from orchestrator.lab.settings import LabSettings
from orchestrator.world import real_world
from providers.base import Answer, Emit, Request
from providers.usage import Usage
from store.rows import RunRecord
from store.secrets.redactor import Redactor
from store.sql.reader import Reader
from tests.orchestrator.lab.labs import said

CHOSEN = {"runs": "/nowhere/runs", "chosen": {"fixtures": [], "targets": [], "replay": True}}


@attrs.define
class Answering:
    """A provider that answers by a function."""

    answers: Callable[[Request], Awaitable[Answer]]
    account: str = "house"
    name: str = "house"
    asked: list[Request] = attrs.field(factory=list)

    def size(self, request: Request) -> int:
        return 10

    async def answer(self, request: Request, emit: Emit) -> Answer:
        self.asked.append(request)
        return await self.answers(request)

    async def aclose(self) -> None:
        pass


REPORTED = Usage(input=1000, output=100)


def always(verdict: str, confidence: float = 0.9, usage: Usage | None = REPORTED, **given: Any) -> Callable[..., Any]:
    async def answer(request: Request) -> Answer:
        return Answer(text=json.dumps(said(verdict, confidence)), usage=usage, finish="stop", **given)

    return answer


async def swept(
    lab: Lab,
    cells: tuple[Cell, ...],
    settings: LabSettings,
    asked: Mapping[str, PricedProvider],
    store: Path,
    **more: Any,
) -> SweepEnd:
    """Plan the cells and run them."""
    return await sweep.start_sweep(setup_of(lab, cells, settings, asked, store, **more), command="lab live")


def setup_of(
    lab: Lab,
    cells: tuple[Cell, ...],
    settings: LabSettings,
    asked: Mapping[str, PricedProvider],
    store: Path,
    **more: Any,
) -> WorkerSetup:
    ended = {"on_ending": more.pop("on_ending")} if "on_ending" in more else {}
    values: dict[str, Any] = {
        "kind": LabKind(
            lab=lab, cells=tuple(cells), settings=settings, providers=asked, stored_selection=CHOSEN, **ended
        ),
        "redactor": Redactor([]),
        "store": store,
        "world": real_world(),
        "say": lambda _text: None,
        "terminal": False,
    }
    return WorkerSetup(**(values | more))


def results(store: Path) -> dict[tuple[str, str, int], RunRecord]:
    """What each run came to, by case, target and repetition."""
    with Reader(store) as reader:
        row = reader.find_sweep("last")
        cells = {cell.id: cell for cell in reader.list_cells(row.id)}
        return {
            (cells[run.cell_id].case_id, cells[run.cell_id].variant, run.repetition): run
            for run in reader.iterate_runs(row.id)
        }
