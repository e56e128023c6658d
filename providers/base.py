"""The provider port and the subject port, with the value types they share: requests, answers, assignments.

A *provider* answers one request. A *subject* (the built-in agent, an agent CLI, a decision flow) works on an assignment
and reaches models only through `Ask`, the orchestrator's gate. A number that was not reported is None, never 0.

`ErrorKind`, `ProviderError` and `Usage` can be imported from here too: a provider outside this repository needs this
module alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import attrs

from providers.errors import ErrorKind as ErrorKind  # noqa: PLC0414 - marks the name as exported
from providers.errors import ProviderError as ProviderError  # noqa: PLC0414 - marks the name as exported
from providers.usage import Usage as Usage  # noqa: PLC0414 - marks the name as exported
from store.events import Event, Json

if TYPE_CHECKING:
    from providers.system.sandbox import Sandbox

PROVIDER_API = 1
"""Version of the provider port; an entry point of another version is refused."""

Effect = Literal["read", "write", "process", "external", "analysis"]
Finish = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error"]

# --- requests -------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ToolSpec:
    """A tool as the model sees it; the schema is JSON Schema."""

    name: str
    description: str
    input_schema: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class ToolCall:
    """A tool call by the model. `arguments` is None if they are not a JSON object; `problem` then says why."""

    id: str
    name: str
    arguments: Mapping[str, Json] | None
    raw: str = ""
    problem: str | None = None


@attrs.frozen(kw_only=True)
class UserText:
    """A message from the user, or from the harness in the user's place."""

    text: str
    summary: bool = False


@attrs.frozen(kw_only=True)
class AssistantTurn:
    """A complete answer of the model, as the next request sends it back."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    continuation: Json = None
    """Provider data that must go back unchanged."""


@attrs.frozen(kw_only=True)
class ToolAnswer:
    """The result of one tool call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


Message = UserText | AssistantTurn | ToolAnswer


@attrs.frozen(kw_only=True)
class Origin:
    """The run (suite, case, repetition) behind a request. Scripts select by it; it is never sent to an endpoint."""

    suite_id: str
    case_id: str
    repetition: int
    variant: str = ""
    node: str = ""
    """The node of a decision flow that makes the request; empty for an agent."""


@attrs.frozen(kw_only=True)
class Request:
    """One request to a model."""

    origin: Origin
    model: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    native_tools: tuple[Json, ...] = ()
    answer_schema: Mapping[str, Json] | None = None
    """JSON Schema of a structured answer; the answer's text is then `{"answer": ..., "confidence": 0..1}`. A provider
    that takes questions instead of text derives them from the schema."""
    timeout_ms: int | None = None
    """Limit on one try in total, in milliseconds, enforced by the gate. None: only the provider's own limits apply."""
    first_token_timeout_ms: int | None = None
    """Limit on the wait for the first byte of the answer, in milliseconds, enforced by the provider and never sent or
    recorded. None: the limit the provider was opened with."""
    purpose: Literal["turn", "compaction"] = "turn"
    """The reason for the request: the next turn, or a summary of older turns. Scripts select by it."""
    turn: int | None = None
    """Number of earlier requests with this purpose in the same run, including turns dropped since. Scripts select by
    it; None: the number of turns in the messages."""
    key: str = ""
    """The Idempotency-Key, SWEEP/POSITION/ATTEMPT/REQUEST: equal for all retries. Set by the gate."""
    tries: int = 0
    """Number of earlier sends of this request: 0 on the first try. Set by the gate."""


# --- answers ---------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Answer:
    """A complete answer: text, tool calls and finish reason."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish: Finish | None = None
    finish_raw: str | None = None
    model: str | None = None
    continuation: Json = None
    cost_nusd: int | None = None
    """Cost in nano-USD as the provider reports it; None if it reports none."""
    notes: tuple[str, ...] = ()
    """Names of protocol incidents to count, such as `usage_unreported` or `usage_implausible`."""


@attrs.frozen(kw_only=True)
class Responded:
    """HTTP status and request id, emitted before the body is read."""

    status: int
    provider_request_id: str | None = None


@attrs.frozen
class TextDelta:
    """A piece of the answer's text."""

    text: str


@attrs.frozen
class ReasoningDelta:
    """A piece of the model's reasoning, which is not part of the text."""

    text: str


@attrs.frozen(kw_only=True)
class Body:
    """The raw body of a response, refusals included. Only endpoints opened with `keep_bodies` emit it, once, at the
    end; a body that broke off without a sign of it is not emitted. Everything but recording ignores it.
    """

    status: int
    content: bytes


Emitted = Responded | TextDelta | ReasoningDelta | Body
Emit = Callable[[Emitted], None]
"""Callback for events of a response while it arrives. Never blocks."""


class Provider(Protocol):
    """The provider port: sends one request to a model and returns its answer."""

    @property
    def name(self) -> str:
        """The provider's name; for an endpoint without one, the host of its URL."""

    @property
    def account(self) -> str:
        """The key for rate limits: identifies endpoint and credential and reveals no secret."""

    def size(self, request: Request) -> int:
        """Size of the encoded request in bytes: an upper bound of its input tokens."""

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Send the request once and pass each delta to *emit*. Retries, waiting and money are the gate's business.

        Raises:
            ProviderError: no complete answer arrived; `retryable` says whether another try may help.
        """

    async def aclose(self) -> None:
        """Release connections."""


class Adaptations(Protocol):
    """The adaptations that an endpoint's refusals have made necessary."""

    def names(self) -> tuple[str, ...]:
        """The names of the active adaptations in a fixed order; stored as a condition of the measurement."""


@runtime_checkable
class Adaptive(Protocol):
    """Optional part of the port: a provider that adapts its requests to the endpoint's refusals."""

    @property
    def quirks(self) -> Adaptations:
        """The adaptations so far; the set only grows while the provider is open."""


def quirks_of(provider: Provider) -> tuple[str, ...]:
    """The names of the adaptations of *provider*; empty if it does not adapt."""
    return provider.quirks.names() if isinstance(provider, Adaptive) else ()


# --- subjects -----------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Policy:
    """Permissions of a run. `granted` always contains `read`."""

    mode: Literal["ask", "auto", "full"] = "auto"
    granted: frozenset[Effect] = frozenset({"read"})
    askable: frozenset[Effect] = frozenset()
    """In `ask` mode: effects that are offered but denied, as nobody is present, with an `approval_denied` incident."""


@attrs.frozen(kw_only=True)
class AgentSettings:
    """The measured configuration, covered by the configuration hash (defaults in docs/configuration.md)."""

    max_turns: int = 100
    max_output_tokens: int | None = None
    max_context_chars: int = 800_000
    truncation_recoveries: int = 2
    first_token_timeout_ms: int = 90_000
    first_token_retries: int = 1
    compaction_auto: bool = True
    compaction_threshold: float = 0.85
    compaction_keep_turns: int = 2
    compaction_max_output_tokens: int = 16_000
    reasoning_effort: str | None = None
    native_tools: tuple[Json, ...] = ()
    agent: str = "build"
    instructions: str | None = None
    """System prompt of the active agent; None: that of the built-in agent."""


@attrs.frozen(kw_only=True)
class Assignment:
    """The input of a subject: prompt, workspace, model, permissions and limits."""

    origin: Origin
    prompt: str
    workspace: Path
    model: str
    policy: Policy
    settings: AgentSettings
    max_turns: int
    max_tokens: int | None = None
    max_tool_calls: int | None = None
    context_window: int | None = None
    """Context window of the model in tokens; None if unknown."""
    allow_private: bool = False
    """True if tools may connect to addresses of this machine and of private networks."""
    sandbox: Sandbox | None = None
    """The sandbox for programs that the subject starts; None: no confinement."""
    marker: str = ""
    """SWEEP/POSITION/ATTEMPT, set as EVALCTL_ATTEMPT in the environment of every process."""
    home: Path | None = None
    """HOME and TMPDIR of every process, outside the workspace and created before the first one starts; None: the
    subject creates a temporary directory and removes it."""
    materialise: Callable[[], None] | None = None
    """Writes the workspace to disk unless it exists already; called before anything reads or changes it."""


@attrs.frozen(kw_only=True)
class ToolUse:
    """One executed tool call, for verifiers that check the calls of a run."""

    name: str
    arguments: Json
    is_error: bool


@attrs.frozen(kw_only=True)
class Done:
    """The result of a subject: why it stopped, and totals over its turns."""

    stop: Literal["completed", "failed", "budget"]
    reason: str | None = None
    """For `failed`: what the model did (`too_many_tool_calls`, `truncated_output`, `content_filter`, `refusal`,
    `context_overflow`, `compaction_failed`, `bad_tool_call`); for `budget`: `maxTurns`, `maxTokens`, `maxToolCalls`."""
    text: str = ""
    turns: int = 0
    tools: tuple[ToolUse, ...] = ()
    usage: Usage | None = None
    """Sums over the turns; a field is None unless every turn reported it."""
    cached_partial: bool = False
    """True if only some of the turns reported cached input."""
    compactions: int = 0
    """Number of requests for a summary of the transcript; they are not turns."""
    compaction_usage: Usage | None = None
    """Sums over those requests, not included in `usage`; a field is None unless every one of them reported it."""
    model: str | None = None


class Ask(Protocol):
    """The gate as subjects and judges see it: their only way to a model."""

    async def __call__(self, request: Request) -> Answer:
        """Wait for a permit, send, retry by the policy, settle the spending and record the outcome.

        Raises:
            ProviderError: no answer within the retry policy.
        """


Note = Callable[[Event], None]
"""Callback that records an event of the subject. Never blocks."""


class Subject(Protocol):
    """The subject port: works on one assignment. A new subject is created for every attempt."""

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """Work on *task* to its end and call models only through *ask*.

        Raises:
            ProviderError: the infrastructure failed. A failure of the model is a `Done` with stop `failed`.
        """

    def so_far(self, reason: str) -> Done:
        """Summarise cancelled work as a `Done` with stop `budget` and this *reason*."""
