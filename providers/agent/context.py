"""Context management: keeps a run's transcript within its limits by compaction, then by truncation, else fails."""

from __future__ import annotations

from typing import Literal

import attrs

from providers.agent.answers import diagnose_answer
from providers.agent.checkpoint import build_summary, read_checkpoint
from providers.agent.compaction import COMPACTION_INSTRUCTIONS, render_messages
from providers.agent.shortening import MIN_TARGET_CHARS, shorten_messages
from providers.agent.transcript import Transcript, choose_cut, count_chars, count_tool_chars, estimate_tokens
from providers.base import Ask, Assignment, Message, Note, Request, ToolSpec, UserText
from providers.errors import ProviderError
from providers.usage import UsageSum
from store.events import Incident

CompactionReason = Literal["auto", "budget"]


@attrs.define(kw_only=True)
class ContextWindow:
    """One run's transcript, kept within its limits."""

    task: Assignment
    ask: Ask
    note: Note
    instructions: str
    tools: tuple[ToolSpec, ...]
    transcript: Transcript = attrs.field(factory=Transcript)
    summaries: int = 0
    """Number of requested summaries."""
    used: UsageSum = attrs.field(factory=UsageSum)
    """Token usage of the summaries; not part of the work's own figures."""

    async def fit_transcript(self) -> str | None:
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
        if auto and self._is_near_limit():
            reason = await self._compact_transcript("auto")
            if reason is not None:
                return reason
        if self._is_over_limit():
            self._shorten_long_messages()
            if auto and self._is_over_limit():
                reason = await self._compact_transcript("budget")
                if reason is not None:
                    return reason
        if self._is_over_limit():
            limit = self.task.settings.max_context_chars
            raise ProviderError(
                kind="context_length", message=f"the request is longer than maxContextChars ({limit})", retryable=False
            )
        return None

    @property
    def _chars(self) -> int:
        return self.transcript.chars + len(self.instructions)

    def _is_over_limit(self) -> bool:
        return self._chars > self.task.settings.max_context_chars

    def _is_near_limit(self) -> bool:
        settings, window = self.task.settings, self.task.context_window
        if self._chars >= settings.compaction_threshold * settings.max_context_chars:
            return True
        return window is not None and self._estimate_request_tokens() >= settings.compaction_threshold * window

    def _estimate_request_tokens(self) -> int:
        return self.transcript.estimate_request_tokens(self._count_overhead_chars())

    def _estimate_uncounted_tokens(self) -> int:
        """Estimate the next request by its length alone, so that before and after a summary are comparable."""
        return estimate_tokens(self.transcript.chars + self._count_overhead_chars())

    def _count_overhead_chars(self) -> int:
        return len(self.instructions) + count_tool_chars(self.tools)

    def _shorten_long_messages(self) -> None:
        target = max(MIN_TARGET_CHARS, self.task.settings.max_context_chars - len(self.instructions))
        messages, count = shorten_messages(self.transcript.messages, target)
        if count:
            self.transcript.replace_messages(messages)
            self.note(Incident(name="context_reduced", detail={"messages": count}))

    async def _compact_transcript(self, why: CompactionReason) -> str | None:
        settings, messages = self.task.settings, self.transcript.messages
        at = choose_cut(messages, settings.compaction_keep_turns if why == "auto" else 0)
        if at is None:
            return None
        before, number = self._estimate_uncounted_tokens(), self.summaries
        self.summaries += 1
        answer = await self.ask(
            Request(
                origin=self.task.origin,
                model=self.task.model,
                instructions=COMPACTION_INSTRUCTIONS,
                messages=(UserText(text=render_messages(messages[:at])),),
                max_output_tokens=settings.compaction_max_output_tokens,
                reasoning_effort=settings.reasoning_effort,
                first_token_timeout_ms=settings.first_token_timeout_ms,
                purpose="compaction",
                turn=number,
            )
        )
        self.used.add(answer.usage)
        reason = diagnose_answer(answer)
        if reason is not None:
            return reason
        reply = answer.text.strip()
        if not reply:
            return "compaction_failed"
        checkpoint = read_checkpoint(reply)
        stand_in = build_summary(reply if checkpoint is None else checkpoint.render_text(), at)
        old: list[Message] = messages[:at]
        self.transcript.replace_messages([stand_in, *messages[at:]])
        detail = {
            "reason": why,
            "before": before,
            "after": self._estimate_uncounted_tokens(),
            "replaced": at,
            "structured": checkpoint is not None,
            "summarizedTokens": estimate_tokens(sum(map(count_chars, old))),
            "checkpointTokens": estimate_tokens(count_chars(stand_in)),
        }
        self.note(Incident(name="compaction", detail=detail | ({"partial": True} if answer.finish == "length" else {})))
        return None
