"""A folder, a driver, an endpoint and tiny suites for each test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.peers.driver import Driver, Endpoint, driving, running_endpoint

ANSWER = {"text": "It is done as asked.", "usage": {"input": 12, "output": 6}}


def script(*answers: Mapping[str, Any]) -> dict[str, Any]:
    """A script for the scripted provider: one play of *answers*."""
    return {"format": "evalctl.script/1", "plays": [{"answers": list(answers)}]}


SCRIPT = script(ANSWER)
"""One answer."""


class MakeSuite(Protocol):
    """Writes a suite into a folder of its own."""

    def __call__(
        self,
        tasks: Mapping[str, str],
        *,
        allow: Sequence[str] = ...,
        scripts: Mapping[str, Any] | None = ...,
        **task: Any,
    ) -> Path: ...


@pytest.fixture
def evalctl(tmp_path: Path) -> Iterator[Driver]:
    """The installed command, in a folder and an environment of its own."""
    with driving(tmp_path, EVALCTL_LEASE_SECONDS="2") as driver:
        yield driver


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    """The counting endpoint, in a process of its own."""
    with running_endpoint(tmp_path / "ledger.jsonl", latency_ms=5) as endpoint:
        yield endpoint


@pytest.fixture
def make_suite(tmp_path: Path) -> MakeSuite:
    """`make_suite({"id": "prompt"})`: a suite `tiny` whose untouched fixture passes; task fields go by name."""

    def make(
        tasks: Mapping[str, str],
        *,
        allow: Sequence[str] = (),
        scripts: Mapping[str, Any] | None = None,
        **task: Any,
    ) -> Path:
        return write_suite(tmp_path / "tiny", tasks, allow=allow, scripts=scripts, **task)

    return make


def write_suite(
    root: Path,
    tasks: Mapping[str, str],
    *,
    allow: Sequence[str] = (),
    scripts: Mapping[str, Any] | None = None,
    **task: Any,
) -> Path:
    """A suite `tiny` at *root*; see `make_suite`."""
    (root / "fixtures" / "note").mkdir(parents=True)
    (root / "fixtures" / "note" / "note.txt").write_text("hello\n", encoding="ascii")
    common = {
        "fixture": "fixtures/note",
        "budget": {"maxTurns": 10, "maxWallMs": 600_000},
        "policy": {"mode": "auto", "allow": list(allow)},
        "verifiers": [{"kind": "file-contains", "id": "note", "path": "note.txt", "text": "hello"}],
    }
    document = {
        "schemaVersion": 1,
        "suiteId": "tiny",
        "suiteVersion": "1.0.0",
        "description": "Small tasks for tests.",
        "tasks": [{"id": name, "prompt": prompt} | common | task for name, prompt in tasks.items()],
    }
    (root / "suite.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    if scripts:
        (root / "scripts").mkdir()
        for name, script in scripts.items():
            (root / "scripts" / f"{name}.json").write_text(json.dumps(script), encoding="utf-8")
    return root


def against(endpoint: Endpoint) -> list[str]:
    """The flags that send a sweep to *endpoint*."""
    return ["--provider", "openai", "--base-url", endpoint.url, "--model", "peer-1"]


def tiny(suite: Path, *more: str) -> list[str]:
    """A run of *suite* that asks nothing at the terminal; *more* are flags, such as `against(endpoint)`."""
    chosen = [] if "--provider" in more else ["--provider", "scripted"]
    return ["run", "tiny", "--suite-dir", str(suite), "--yes", *chosen, *more]


def numbered(count: int, prompt: str = "Say that it is done.") -> dict[str, str]:
    """*count* tasks with the same prompt."""
    return {f"task-{number}": prompt for number in range(count)}
