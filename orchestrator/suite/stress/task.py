"""A generated task: its entry in `suite.json`, its fixture, and the script that solves it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import attrs

from orchestrator.suite.stress.checks import hash_content
from store.events import Json

BASE_INPUT_TOKENS = 900
"""Input tokens of instructions and tools, which a script reports in addition to the prompt."""
CHARS_PER_TOKEN = 4
CACHE_STEP_TOKENS = 128
SUMMARY_TOKENS = 300


@attrs.frozen(kw_only=True)
class GeneratedTask:
    """A generated task with all its files."""

    id: str
    prompt: str
    fixture: Mapping[str, str]
    """Contents by path in the fixture."""
    max_turns: int
    max_tokens: int
    max_tool_calls: int
    max_wall_ms: int = 1_800_000
    allow: Sequence[str] = ("write",)
    verifiers: Sequence[Mapping[str, Json]]
    tags: Sequence[str]
    answers: Sequence[Json]
    """Turns of a model that solves the task."""
    checkpoint: Mapping[str, Json]
    """Summary that this model writes when its context is compacted."""
    compactions: int = 8
    """Number of summaries in the script."""

    def to_suite_entry(self) -> dict[str, Json]:
        """Encode the task's entry in `suite.json`."""
        return {
            "id": self.id,
            "prompt": self.prompt,
            "fixture": f"fixtures/{self.id}",
            "budget": {
                "maxTurns": self.max_turns,
                "maxTokens": self.max_tokens,
                "maxWallMs": self.max_wall_ms,
                "maxToolCalls": self.max_tool_calls,
            },
            "policy": {"mode": "auto", "allow": [*self.allow]},
            "verifiers": [{**verifier} for verifier in self.verifiers],
            "tags": [*self.tags],
        }

    def to_script(self) -> dict[str, Json]:
        """Encode the script for the scripted provider."""
        summary_text = json.dumps({"checkpoint": {**self.checkpoint}}, ensure_ascii=False)
        summary = {"text": summary_text, "usage": {"input": 5000, "output": SUMMARY_TOKENS}}
        play = {"answers": [*self.answers], "compaction": [summary] * self.compactions}
        return {"format": "evalctl.script/1", "plays": [play]}


@attrs.define(kw_only=True)
class Turns:
    """Builds the turns of a script, with usage as a provider might report it."""

    prompt: str
    answers: list[Json] = attrs.field(factory=list)
    _chars: int = 0
    _before: int = 0
    """Input tokens of the previous turn."""

    def add_call(self, name: str, arguments: Mapping[str, Json], *, answer_chars: int = 150, text: str = "") -> None:
        """Add a turn with one tool call; its result has about *answer_chars* characters."""
        call = {"id": f"call-{len(self.answers) + 1}", "name": name, "arguments": {**arguments}}
        self._add_turn({"text": text} if text else {}, {"toolCalls": [call]}, len(json.dumps(arguments)) + len(text))
        self._chars += answer_chars

    def add_read(self, path: str, content: str, **where: int) -> None:
        """Add a turn that reads a file; *where* gives the tool's range of lines."""
        self.add_call("read_file", {"path": path, **where}, answer_chars=len(content) + 200)

    def add_edit(self, path: str, before: str, old: str, new: str) -> str:
        """Add a turn that edits a file with the content *before*; return the content after the edit.

        Raises:
            ValueError: *old* does not occur exactly once, so that the tool would refuse the edit.
        """
        if before.count(old) != 1:
            raise ValueError(f"{old!r} occurs {before.count(old)} times in {path}")
        self.add_call("edit_file", {"path": path, "expectedHash": hash_content(before), "oldText": old, "newText": new})
        return before.replace(old, new)

    def add_write(self, path: str, content: str) -> None:
        """Add a turn that creates a file."""
        self.add_call("write_file", {"path": path, "content": content, "expectedHash": None})

    def end_play(self, text: str) -> Sequence[Json]:
        """Add the last turn; return all turns."""
        self._add_turn({"text": text}, {}, len(text))
        return self.answers

    def _add_turn(self, content: Mapping[str, Json], calls: Mapping[str, Json], chars: int) -> None:
        tokens = BASE_INPUT_TOKENS + (len(self.prompt) + self._chars) // CHARS_PER_TOKEN
        cached = self._before // CACHE_STEP_TOKENS * CACHE_STEP_TOKENS
        usage = {"input": tokens, "output": 12 + chars // CHARS_PER_TOKEN, "cached": cached}
        self.answers.append({**content, **calls, "usage": usage})
        self._before = tokens
        self._chars += chars
