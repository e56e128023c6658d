from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from providers.agent.loop import BuiltinAgent
from providers.base import (
    AgentSettings,
    Answer,
    Assignment,
    Done,
    Effect,
    Origin,
    Policy,
    Request,
    ToolAnswer,
    ToolCall,
)
from store.events import Event, Incident

EVERYTHING: frozenset[Effect] = frozenset({"read", "write", "process"})


def call(name: str, /, *, id: str = "c1", **arguments: Any) -> ToolCall:  # noqa: A002 - reads as the field it fills
    return ToolCall(id=id, name=name, arguments=arguments, raw=json.dumps(arguments))


@attrs.define
class Worked:
    """What a run of the agent came to."""

    done: Done
    requests: list[Request]
    events: list[Event]

    @property
    def incidents(self) -> list[str]:
        return [event.name for event in self.events if isinstance(event, Incident)]

    @property
    def answers(self) -> list[ToolAnswer]:
        """Those that the model got to see, in order."""
        return [message for message in self.requests[-1].messages if isinstance(message, ToolAnswer)]


Work = Callable[..., Awaitable[Worked]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "private" / "work"
    workspace.mkdir(parents=True)
    (workspace.parent / "home").mkdir()
    return workspace


def make_assignment(workspace: Path, **fields: Any) -> Assignment:
    """An assignment with an empty prompt and one turn, but for *fields*."""
    usual: dict[str, Any] = {
        "origin": Origin(suite_id="s", case_id="c", repetition=0),
        "prompt": "",
        "workspace": workspace,
        "model": "m",
        "policy": Policy(),
        "settings": AgentSettings(),
        "max_turns": 1,
    }
    return Assignment(**usual | fields)


@pytest.fixture
def work(workspace: Path) -> Work:
    """Let the agent work with a model that gives the answers listed, one after the other."""

    async def run(
        answers: Iterable[Answer | Exception],
        *,
        policy: Policy | None = None,
        settings: AgentSettings | None = None,
        max_turns: int = 10,
        max_tokens: int | None = None,
        max_tool_calls: int | None = None,
        **more: Any,
    ) -> Worked:
        script = iter(answers)
        requests: list[Request] = []
        events: list[Event] = []

        async def ask(request: Request) -> Answer:
            requests.append(request)
            answer = next(script)
            if isinstance(answer, Exception):
                raise answer
            return answer

        task = make_assignment(
            workspace,
            prompt="do it",
            policy=policy or Policy(granted=EVERYTHING),
            settings=settings or AgentSettings(),
            max_turns=max_turns,
            max_tokens=max_tokens,
            max_tool_calls=max_tool_calls,
            marker="sweep-1a2b3c4d/0/1",
            home=workspace.parent / "home",
            **more,
        )
        done = await BuiltinAgent().work(task, ask, events.append)
        return Worked(done, requests, events)

    return run
