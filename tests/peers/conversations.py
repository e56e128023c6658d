"""What a foreign server has to say so that a bundled suite's tasks are solved: its scripts, with every hash filled in.

A script refers to the results of earlier calls (`${read-1.sha256}`); a foreign server cannot. So the calls are played
here, in a copy of the fixture, by the plainest means: files are read and written, commands are run.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from tests.peers.driver import ROOT

Json = Any

REFERENCE = re.compile(r"\$\{(.+)\.sha256\}")
SUITES = ROOT / "suites"


@attrs.frozen(kw_only=True)
class Call:
    """One tool call, with nothing left to fill in."""

    id: str
    name: str
    arguments: dict[str, Json]


@attrs.frozen(kw_only=True)
class Turn:
    """One answer of the model."""

    text: str
    calls: tuple[Call, ...]


@attrs.frozen(kw_only=True)
class Conversation:
    """How a task is solved."""

    task: str
    prompt: str
    turns: tuple[Turn, ...]


def conversations(suite: str, folder: Path) -> tuple[Conversation, ...]:
    """The first play of every task of the bundled *suite*, played in *folder*."""
    root = SUITES / suite
    document = json.loads((root / "suite.json").read_bytes())
    return tuple(
        Conversation(task=task["id"], prompt=task["prompt"], turns=tuple(_played(root, task, folder / task["id"])))
        for task in document["tasks"]
    )


def aimock_fixtures(told: tuple[Conversation, ...], *, by_item: bool = False) -> Json:
    """The conversations in aimock's own format: a turn is chosen by the prompt and the answers before it.

    In the Responses format a turn's text and each of its calls are items of their own, and aimock counts each as an
    answer: *by_item* counts so, too.
    """
    fixtures = []
    for one in told:
        before = 0
        for turn in one.turns:
            calls = [attrs.asdict(call) for call in turn.calls]
            response = ({"content": turn.text} if turn.text else {}) | ({"toolCalls": calls} if calls else {})
            fixtures.append({"match": {"userMessage": one.prompt, "turnIndex": before}, "response": response})
            before += bool(turn.text) + len(calls) if by_item else 1
    return {"fixtures": fixtures}


def endpoint_rules(told: tuple[Conversation, ...]) -> list[Json]:
    """The conversations as the plan of the counting endpoint."""
    return [
        {
            "match": one.prompt,
            "do": {
                "steps": [
                    {"text": turn.text, "calls": [{"name": c.name, "arguments": c.arguments} for c in turn.calls]}
                    for turn in one.turns
                ]
            },
        }
        for one in told
    ]


def _played(root: Path, task: Json, workspace: Path) -> Iterator[Turn]:
    shutil.copytree(root / task["fixture"], workspace)  # makes the folders above, too
    script = json.loads((root / "scripts" / f"{task['id']}.json").read_bytes())
    hashes: dict[str, str] = {}
    for answer in script["plays"][0]["answers"]:
        calls = []
        for call in answer.get("toolCalls", ()):
            arguments = dict(call["arguments"])
            if isinstance(arguments.get("expectedHash"), str):
                arguments["expectedHash"] = REFERENCE.sub(lambda found: hashes[found[1]], arguments["expectedHash"])
            if (told := _done(workspace, call["name"], arguments)) is not None:
                hashes[call["id"]] = told
            calls.append(Call(id=call["id"], name=call["name"], arguments=arguments))
        yield Turn(text=answer.get("text", ""), calls=tuple(calls))


def _done(workspace: Path, tool: str, arguments: Json) -> str | None:
    """Do what the call asks for; the hash that it would tell."""
    if tool == "bash":
        subprocess.run(["bash", "-c", arguments["command"]], cwd=workspace, capture_output=True, check=False)
        return None
    if tool == "list_files":
        return None
    path = workspace / arguments["path"]
    if tool == "edit_file" and _hash(path) == arguments["expectedHash"]:  # a stale edit changes nothing
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(arguments["oldText"], arguments["newText"]), encoding="utf-8")
    if tool == "write_file":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(arguments["content"], encoding="utf-8")
    return _hash(path) if path.is_file() else None


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
