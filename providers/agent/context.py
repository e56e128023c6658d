"""Context management: keeps a run's transcript within its limits by compaction, then by truncation, else fails."""

from __future__ import annotations

from typing import Literal

import attrs

from providers.agent.answers import broken_off
from providers.agent.checkpoint import read_checkpoint, summary
from providers.agent.clip import LEAST_TARGET, clipped
from providers.agent.compaction import INSTRUCTIONS, record
from providers.agent.transcript import Transcript, cut, tokens_of, weight, weight_of_tools
from providers.base import Ask, Assignment, Message, Note, Request, ToolSpec, UserText
from providers.errors import ProviderError
from providers.usage import UsageSum
from store.events import Incident

Why = Literal["auto", "budget"]


@attrs.define(kw_only=True)
class Context:
    """One run's transcript, kept within its limits."""

    task: Assignment
    ask: Ask
    note: Note
    instructions: str
    tools: tuple[ToolSpec, ...]
    transcript: Transcript = attrs.field(factory=Transcript)
    calls: int = 0
    """Number of requested summaries."""
    used: UsageSum = attrs.field(factory=UsageSum)
    """Token usage of the summaries; not part of the work's own figures."""

    async def fit(self) -> str | None:
        """Shorten the transcript if the next request would be too long.

        1. Near the limit, the model summarises the older part (`compaction.auto`).
        2. Beyond `limits.maxContextChars`, long messages are truncated, and if that is not enough the whole transcript
           is summarised.

        Returns:
            The reason why a summary failed, which ends the work; else None.

        Raises:
            ProviderError: `context_length` if the transcript is still too long; else as `Ask`.
        """
        auto = self.task.settings.compaction_auto
        if auto and self._near():
            reason = await self._compact("auto")
            if reason is not None:
                return reason
        if self._over():
            self._clip()
            if auto and self._over():
                reason = await self._compact("budget")
                if reason is not None:
                    return reason
        if self._over():
            limit = self.task.settings.max_context_chars
            raise ProviderError(
                kind="context_length", message=f"the request is longer than maxContextChars ({limit})", retryable=False
            )
        return None

    @property
    def _chars(self) -> int:
        return self.transcript.chars + len(self.instructions)

    def _over(self) -> bool:
        return self._chars > self.task.settings.max_context_chars

    def _near(self) -> bool:
        settings, window = self.task.settings, self.task.context_window
        if self._chars >= settings.compaction_threshold * settings.max_context_chars:
            return True
        return window is not None and self._tokens() >= settings.compaction_threshold * window

    def _tokens(self) -> int:
        return self.transcript.tokens(self._beside())

    def _estimate(self) -> int:
        """Estimate the next request by its length alone, so that before and after a summary are comparable."""
        return tokens_of(self.transcript.chars + self._beside())

    def _beside(self) -> int:
        return len(self.instructions) + weight_of_tools(self.tools)

    def _clip(self) -> None:
        target = max(LEAST_TARGET, self.task.settings.max_context_chars - len(self.instructions))
        messages, count = clipped(self.transcript.messages, target)
        if count:
            self.transcript.replace(messages)
            self.note(Incident(name="context_reduced", detail={"messages": count}))

    async def _compact(self, why: Why) -> str | None:
        settings, messages = self.task.settings, self.transcript.messages
        at = cut(messages, settings.compaction_keep_turns if why == "auto" else 0)
        if at is None:
            return None
        before, number = self._estimate(), self.calls
        self.calls += 1
        answer = await self.ask(
            Request(
                origin=self.task.origin,
                model=self.task.model,
                instructions=INSTRUCTIONS,
                messages=(UserText(text=record(messages[:at])),),
                max_output_tokens=settings.compaction_max_output_tokens,
                reasoning_effort=settings.reasoning_effort,
                first_token_timeout_ms=settings.first_token_timeout_ms,
                purpose="compaction",
                turn=number,
            )
        )
        self.used.add(answer.usage)
        reason = broken_off(answer)
        if reason is not None:
            return reason
        said = answer.text.strip()
        if not said:
            return "compaction_failed"
        checkpoint = read_checkpoint(said)
        stand_in = summary(said if checkpoint is None else checkpoint.text(), at)
        old: list[Message] = messages[:at]
        self.transcript.replace([stand_in, *messages[at:]])
        detail = {
            "reason": why,
            "before": before,
            "after": self._estimate(),
            "replaced": at,
            "structured": checkpoint is not None,
            "summarizedTokens": tokens_of(sum(map(weight, old))),
            "checkpointTokens": tokens_of(weight(stand_in)),
        }
        self.note(Incident(name="compaction", detail=detail | ({"partial": True} if answer.finish == "length" else {})))
        return None
