"""Labs on the disk for tests that drive the command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

VERDICT = {
    "type": "object",
    "properties": {"verdict": {"enum": ["allow", "ask", "deny"]}},
    "required": ["verdict"],
}
ALLOWED = {"cel": "decision.verdict == 'allow'", "why": "listing is harmless"}


def said(verdict: str = "allow", confidence: float = 0.9) -> str:
    """What a model answers."""
    return json.dumps({"answer": {"verdict": verdict}, "confidence": confidence})


def answering(verdict: str = "allow", **given: Any) -> dict[str, Any]:
    """A rule of the endpoint's plan: every answer is this one."""
    return {"do": {"steps": [{"text": said(verdict)}]} | given}


def write_lab(
    home: Path,
    url: str = "http://127.0.0.1:9/v1",
    *,
    fixtures: Mapping[str, Mapping[str, Any]] | Sequence[str] = ("one",),
    flow: Sequence[Mapping[str, Any]] = (),
    backend: Mapping[str, Any] | None = None,
    **lab: Any,
) -> Path:
    """A lab in `config/lab` below *home*, where the command finds it; *lab* are keys of `lab.yaml`."""
    root = home / "config" / "lab"
    (root / "fixtures" / "gate").mkdir(parents=True)
    judge = {
        "id": "judge",
        "kind": "model",
        "prompt": "May this run? {{ input.command }}",
        "backend": "house",
        "model": "house-1",
        "answer": VERDICT,
    }
    capability = {
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        "flow": list(flow) or [judge],
    }
    house = {"kind": "openai", "base_url": url, **(backend or {})}
    _write(root / "config.yaml", {"backends": {"house": house}, "capabilities": {"gate": capability}})
    targets = {name: {"backend": "house", "model": f"{name}-1"} for name in ("jev", "nimble")}
    _write(root / "lab.yaml", {"targets": targets, "budget": {"max_calls": 100}} | lab)
    named = fixtures if isinstance(fixtures, Mapping) else {name: {} for name in fixtures}
    for name, given in named.items():
        write_fixture(root, name, **given)
    return root


def write_fixture(root: Path, name: str, *, command: str | None = None, **given: Any) -> Path:
    """A fixture of `gate`, or the same again with other keys."""
    document = {"id": name, "version": 1, "input": {"command": command or f"ls {name}"}, "expect": [ALLOWED]} | given
    file = root / "fixtures" / "gate" / f"{name}.yaml"
    _write(file, document)
    return file


def _write(file: Path, document: Any) -> None:
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def run_directory(home: Path) -> Path:
    """The newest run directory."""
    return max((home / ".local" / "runs").iterdir())
