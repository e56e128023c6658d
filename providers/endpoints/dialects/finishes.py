"""Finish words of model providers: what the reported end of an answer means, each with its source.

One row is one word. All readers use this table, so a new word is one line here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from providers.base import Finish

UNKNOWN_FINISH = "unknown_finish"
"""Note: the answer is complete, but its finish word is in no row."""

Meaning = Finish | Literal["broken", "bad_tool_call"]
"""A finish; `broken`: the endpoint broke the answer off; `bad_tool_call`: the model wrote a call that is no call."""

_OPENAI = "https://platform.openai.com/docs/api-reference/chat/object"
_RESPONSES = "https://platform.openai.com/docs/api-reference/responses/object"
_ANTHROPIC = "https://docs.anthropic.com/en/api/handling-stop-reasons"
_GOOGLE = "https://ai.google.dev/api/generate-content#FinishReason"
_BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html"
_OPENROUTER = "https://openrouter.ai/docs/api-reference/overview"
_MISTRAL = "https://docs.mistral.ai/api/#tag/chat"
_COHERE = "https://docs.cohere.com/reference/chat"
_DEEPSEEK = "https://api-docs.deepseek.com/api/create-chat-completion"
_ZAI = "https://docs.z.ai/api-reference/llm/chat-completion"
_VLLM = "https://github.com/vllm-project/vllm/blob/main/vllm/v1/engine/__init__.py"
_TGI = "https://github.com/huggingface/text-generation-inference/blob/main/router/src/lib.rs"
_TOGETHER = "https://docs.together.ai/reference/chat-completions-1"
_OLLAMA = "https://github.com/ollama/ollama/blob/main/llm/server.go"
_SPELLING = "another spelling of a documented word"

_ROWS: tuple[tuple[Meaning, str, str], ...] = (
    ("stop", "stop", _OPENAI),
    ("stop", "eos", _TOGETHER),
    ("stop", "eos_token", _TGI),
    ("stop", "end_turn", _ANTHROPIC),
    ("stop", "stop_sequence", _ANTHROPIC),
    ("stop", "complete", _COHERE),
    ("stop", "completed", _RESPONSES),
    ("length", "length", _OPENAI),
    ("length", "max_tokens", _ANTHROPIC),
    ("length", "max_output_tokens", _RESPONSES),
    ("length", "model_length", _MISTRAL),
    ("length", "model_context_window_exceeded", _ANTHROPIC),
    ("tool_calls", "tool_calls", _OPENAI),
    ("tool_calls", "function_call", _OPENAI),
    ("tool_calls", "tool_use", _ANTHROPIC),
    ("tool_calls", "tool_call", _COHERE),
    ("content_filter", "content_filter", _OPENAI),
    ("content_filter", "content_filtered", _BEDROCK),
    ("content_filter", "guardrail_intervened", _BEDROCK),
    ("content_filter", "sensitive", _ZAI),
    ("content_filter", "safety", _GOOGLE),
    ("content_filter", "recitation", _GOOGLE),
    ("content_filter", "blocklist", _GOOGLE),
    ("content_filter", "prohibited_content", _GOOGLE),
    ("content_filter", "spii", _GOOGLE),
    ("content_filter", "error_toxic", _COHERE),
    ("refusal", "refusal", _ANTHROPIC),
    ("pause", "pause_turn", _ANTHROPIC),
    ("bad_tool_call", "malformed_function_call", _GOOGLE),
    ("bad_tool_call", "unexpected_tool_call", _GOOGLE),
    ("bad_tool_call", "too_many_tool_calls", _GOOGLE),
    ("bad_tool_call", "malformed_tool_use", _BEDROCK),
    ("bad_tool_call", "malformed_tool_call", _SPELLING),
    ("broken", "abort", _VLLM),
    ("broken", "aborted", _DEEPSEEK),
    ("broken", "error", _OPENROUTER),
    ("broken", "cancelled", _RESPONSES),
    ("broken", "canceled", _SPELLING),
    ("broken", "cancel", _SPELLING),
    ("broken", "user_cancel", _COHERE),
    ("broken", "failed", _RESPONSES),
    ("broken", "failure", _SPELLING),
    ("broken", "timeout", _COHERE),
    ("broken", "time_out", _SPELLING),
    ("broken", "timed_out", _SPELLING),
    ("broken", "interrupted", _SPELLING),
    ("broken", "preempted", _SPELLING),
    ("broken", "network_error", _ZAI),
    ("broken", "connection_error", _SPELLING),
    ("broken", "server_error", _SPELLING),
    ("broken", "internal_error", _SPELLING),
    ("broken", "unavailable", _SPELLING),
    ("broken", "overloaded", _SPELLING),
    ("broken", "insufficient_system_resource", _DEEPSEEK),
    ("broken", "load", _OLLAMA),
    ("broken", "unload", _OLLAMA),
)
"""(meaning, word in lower case with underscores, source)."""

FINISHES: Mapping[str, Meaning] = {word: meaning for meaning, word, _ in _ROWS}
_SEPARATORS = re.compile(r"[\s-]+")
_PREFIX = re.compile(r"^.*[.:]\s*", re.DOTALL)


def find_meaning(word: str | None) -> Meaning | None:
    """The meaning of a finish word, in any case and with any prefix (`FinishReason.STOP`, `function_call_filter:
    MALFORMED_FUNCTION_CALL`); None if it is absent or unknown.
    """
    if word is None:
        return None
    plain = word.strip()[-100:].lower()
    return next(
        (FINISHES[key] for text in (plain, _PREFIX.sub("", plain)) if (key := _SEPARATORS.sub("_", text)) in FINISHES),
        None,
    )
