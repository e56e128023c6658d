"""Runs of labs made by hand, and stores that hold such."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from orchestrator.lab.report.model import LabFacts, TargetFacts
from orchestrator.lab.report.run import LabRun
from store.rows import CellRow, NewSweep, PlannedRun, Verdict
from tests.orchestrator.reports import stored

JEV = TargetFacts(id="jev", backend="typesafe", model="jev-latest")
NIMBLE = TargetFacts(id="nimble", backend="ollama", model="nimble", local=True)
WHY = "Deleting the root must never be allowed without asking"
CEL = "status == 'abstain' || decision.verdict != 'allow'"


def facts(**more: Any) -> LabFacts:
    usual: dict[str, Any] = {
        "sweep": "s",
        "lab": "gates",
        "version": "1",
        "mode": "live",
        "repeat": 3,
        "targets": (JEV, NIMBLE),
    }
    return LabFacts(**(usual | more))


def broken(place: int = 0, why: str = WHY, values: Any = None, reason: str | None = None) -> Verdict:
    detail = {"why": why, "cel": CEL, "values": {"status": "ok"} if values is None else values}
    if reason is not None:
        detail["reason"] = reason
    return Verdict(verifier=f"expect[{place}]", kind="cel", verdict="fail", detail=detail)


HELD = Verdict(verifier="expect[0]", kind="cel", verdict="pass", detail={"why": WHY, "cel": CEL})


def run(fixture: str = "rm-root", target: str = "jev", repetition: int = 0, **more: Any) -> LabRun:
    """A run that passed in 100 ms for 0.001 USD, sure to 0.9."""
    outcome = more.get("outcome", "pass")
    judged = outcome in ("pass", "fail", "error")
    usual: dict[str, Any] = {
        "capability": "toolgate",
        "version": "1",
        "outcome": outcome,
        "judged": judged,
        "decision_status": "ok" if judged else None,
        "decision": {"verdict": "deny"} if judged else None,
        "confidence": 0.9 if judged else None,
        "asked": judged,
        "wall_ms": 100 if judged else None,
        "waited_ms": 0 if judged else None,
        "calls": 1 if judged else None,
        "cost_nusd": 1_000_000 if judged else None,
        "verdicts": (HELD,) if outcome == "pass" else (broken(),) if judged else (),
    }
    return LabRun(case_name=fixture, target=target, repetition=repetition, **(usual | more))


FIXTURES = ("route/refund", "toolgate/echo", "toolgate/rm-root")
TARGETS = ("jev", "nimble")


def sweep(
    fixtures: tuple[str, ...] = FIXTURES,
    targets: tuple[str, ...] = TARGETS,
    k: int = 2,
    *,
    mode: Literal["live", "replay", "offline"] = "live",
    name: str = stored.NAME,
) -> NewSweep:
    """The plan of a lab: every fixture against every target, *k* times."""
    pairs = [(fixture, target) for fixture in fixtures for target in targets]
    cells = tuple(
        CellRow(
            digest=f"{fixture}-{target}-{mode}".encode().ljust(32)[:32],
            fingerprint=f"f-{fixture}-{target}",
            fingerprint_version=1,
            config_hash=f"c-{fixture.partition('/')[0]}-{target}",
            suite_id="gates",
            suite_version="1",
            case_id=fixture,
            case_version="1",
            variant=target,
            target="decision",
            model={"jev": "jev-latest", "nimble": "nimble"}.get(target, ""),
            document="{}",
        )
        for fixture, target in pairs
    )
    runs = tuple(
        PlannedRun(
            position=r * len(pairs) + c + 1, cell=c, repetition=r, pair=r * len(fixtures) + fixtures.index(pairs[c][0])
        )
        for r in range(k)
        for c in range(len(pairs))
    )
    usual = stored.sweep(["a"], k, mode=mode)
    told = {one.id: attrs.asdict(one, filter=lambda field, _: field.name != "id") for one in (JEV, NIMBLE)}
    conditions = {
        **usual.conditions,
        "suite": {"id": "gates", "version": "1", "root": "/home/me/config/lab", "content": {"lab.yaml": "0" * 64}},
        "lab": {"targets": told},
    }
    return attrs.evolve(
        usual,
        name=name,
        command=f"lab {mode}",
        suite_id="gates",
        mode=mode,
        repetitions=k,
        conditions=conditions,
        cells=cells,
        runs=runs,
    )


def said(outcome: str = "pass", *, status: str = "ok", confidence: float | None = 0.9, **more: Any) -> dict[str, Any]:
    """What the ending of a lab's run says beside what `stored.ending` does."""
    judgement = HELD if outcome == "pass" else broken(values={"status": status, "decision": {"verdict": "allow"}})
    usual: dict[str, Any] = {
        "outcome": outcome,
        "judged": True,
        "composite": float(outcome == "pass"),
        "decision_status": status,
        "turns": None,
        "tool_calls": None,
        "calls": 1,
        "cost_nusd": 2_000_000,
        "verdicts": (judgement,),
        "detail": {
            "spent": {"calls": 1, "tokens": 120, "nusd": 2_000_000},
            "decision": {
                "status": status,
                "decision": {"verdict": "deny" if outcome == "pass" else "allow"} if status == "ok" else None,
                "abstain": "too close to call" if status == "abstain" else None,
                "error": {"cause": "provider", "message": "503 from models.example", "node": "judge"}
                if status == "error"
                else None,
                "trace": [
                    {"node": "root-guard", "source": "rule", "outcome": "passed"},
                    {"node": "judge", "source": "model", "outcome": "decided", "ms": 90, "confidence": confidence},
                ],
                "confidence": confidence if status == "ok" else None,
            },
        },
    }
    return usual | more


SKIPPED = {
    "outcome": "skipped",
    "reason": "stale",
    "judged": False,
    "calls": None,
    "input_tokens": None,
    "output_tokens": None,
    "wall_ms": None,
    "waited_ms": None,
    "started_at": None,
    "detail": {"message": "fixture version 1 recorded, now 2"},
}
"""The ending of a run whose recording is too old."""
