"""Labs in memory and on the disk for tests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from orchestrator.lab.model import Expectation, Lab, LabCase, Target
from providers.decisions.model import Backend, Capability, DaemonConfig, ExecNode, ModelNode, RuleNode
from store.rows import Caps

VERDICT = {
    "type": "object",
    "properties": {"verdict": {"enum": ["allow", "ask", "deny"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
INPUT = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
GUARD = RuleNode(id="guard", when="input.command == 'rm -rf /'", decision={"verdict": "deny"})
JUDGE = ModelNode(id="judge", prompt="{{ input.command }}", backend="house", model="house-1", answer=VERDICT)
SPECIALIST = ExecNode(id="gate", command=("true",), fallback="judge")

JEV = Target(id="jev", backend="house", model="jev-1")
NIMBLE = Target(id="nimble", backend="house", model="nimble-1", local=True)


def gate(*flow: Any, **given: Any) -> Capability:
    """A capability `gate`; by default a rule and a model."""
    return Capability(name="gate", input_schema=INPUT, flow=flow or (GUARD, JUDGE), **given)


def fixture(name: str = "one", command: str = "ls", **given: Any) -> LabCase:
    values: dict[str, Any] = {
        "capability": "gate",
        "version": 1,
        "input": {"command": command},
        "expect": (Expectation(cel="decision.verdict == 'allow'", why="listing is harmless"),),
        "content": hashlib.sha256(name.encode()).hexdigest(),
    }
    return LabCase(id=name, **(values | given))


def lab(*fixtures: LabCase, root: Path = Path("/nowhere"), targets: Any = (JEV, NIMBLE), **given: Any) -> Lab:
    capability = given.pop("capability", gate())
    values: dict[str, Any] = {
        "id": "small",
        "version": "1",
        "root": root,
        "config": root / "config.yaml",
        "bundled": False,
        "daemon": DaemonConfig(
            backends={"house": Backend(name="house", kind="openai", base_url="http://127.0.0.1:9/v1")},
            capabilities={capability.name: capability},
        ),
        "targets": {target.id: target for target in targets},
        "budget": Caps(calls=100),
        "repeat": 2,
        "prices": {},
        "cases": fixtures,
        "content": {"lab.yaml": "00", "config.yaml": "11"},
    }
    return Lab(**(values | given))


def said(verdict: str, confidence: float = 0.9) -> dict[str, Any]:
    """What somebody writes into a fixture's `replay` for a model node."""
    return {"answer": {"verdict": verdict}, "confidence": confidence}


def completion(verdict: str, confidence: float = 0.9) -> dict[str, Any]:
    """The body of an OpenAI-shaped answer."""
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "house-1-2026",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": json.dumps(said(verdict, confidence))},
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18},
    }


def record(lab: Lab, one: LabCase, target: str, *answers: dict[str, Any], node: str = "judge", **given: Any) -> Path:
    """Write a cassette by hand: *answers* are `{status, body}`."""
    file = lab.root / one.cassette_path(target)
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": "evalctl.lab-cassette/1",
        "fixtureVersion": one.version,
        "inputHash": one.input_hash,
        "answers": {node: list(answers)},
    } | given
    file.write_text(json.dumps(document), encoding="utf-8")
    return file
