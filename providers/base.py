"""The ports of this folder and the words they share: requests, answers, assignments, errors.

Three parties meet here. A *provider* answers one request. A *subject* (the built-in agent, an agent CLI, a decision
flow) works on an assignment and reaches models only through `Ask`, which is the orchestrator's gate. Numbers that were
not reported are None, never 0.

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

# --- what is asked ----------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ToolSpec:
    """A tool as the model sees it; the schema is JSON Schema."""

    name: str
    description: str
    input_schema: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class ToolCall:
    """A call the model made. `arguments` is None where they are no JSON object; then `problem` says why."""

    id: str
    name: str
    arguments: Mapping[str, Json] | None
    raw: str = ""
    problem: str | None = None


@attrs.frozen(kw_only=True)
class UserText:
    """What the user (or the harness in the user's place) says."""

    text: str
    summary: bool = False


@attrs.frozen(kw_only=True)
class AssistantTurn:
    """A whole answer of the model, as it goes back with the next request."""

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
    """Whose request this is. Scripts choose by it; it never reaches an endpoint."""

    suite_id: str
    case_id: str
    repetition: int
    variant: str = ""
    node: str = ""
    """What of the case asks, where it has parts: a node of a decision flow."""


@attrs.frozen(kw_only=True)
class Request:
    """One thing to ask a provider."""

    origin: Origin
    model: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    native_tools: tuple[Json, ...] = ()
    answer_schema: Mapping[str, Json] | None = None
    """JSON Schema of the answer where one of a given form is asked for; the text is then
    `{"answer": ..., "confidence": 0..1}`. A provider that is asked questions makes them of it."""
    timeout_ms: int | None = None
    """How long one try may take in all; the gate sees to it. None: as long as the provider lets it."""
    purpose: Literal["turn", "compaction"] = "turn"
    """What it is asked for: the work's next turn, or a summary of turns that have to go. Scripts choose by it."""
    turn: int | None = None
    """How many requests of this purpose this work had answered before, forgotten ones too. Scripts choose by it;
    None: as many turns as the messages hold."""
    key: str = ""
    """SWEEP/POSITION/ATTEMPT/REQUEST: the Idempotency-Key, the same over retries. Set by the gate."""
    tries: int = 0
    """How often this same request was sent before. Set by the gate."""


# --- what comes back --------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Answer:
    """A whole answer: text, calls, and how it ended."""

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
    """Nano-USD that the provider itself says the request cost; None where it says nothing."""
    notes: tuple[str, ...] = ()
    """Incidents of the wire worth counting, such as `usage_unreported` or `usage_implausible`."""


@attrs.frozen(kw_only=True)
class Responded:
    """Status and request id, told before the body is read."""

    status: int
    provider_request_id: str | None = None


@attrs.frozen
class TextDelta:
    """A piece of the answer's text."""

    text: str


@attrs.frozen
class ReasoningDelta:
    """A piece of the model's reasoning; never part of the text."""

    text: str


@attrs.frozen(kw_only=True)
class Body:
    """An answer's body as it came, refusals too. Handed over only by endpoints that were opened to keep bodies, once,
    at its end, and not where it broke off and does not tell so; what is no part of recording passes over it.
    """

    status: int
    content: bytes


Emitted = Responded | TextDelta | ReasoningDelta | Body
Emit = Callable[[Emitted], None]
"""Where a provider hands over what it sees while it is being answered. Never blocks."""


class Provider(Protocol):
    """Answers one request."""

    @property
    def name(self) -> str:
        """The provider's plain name, or a URL's host for an endpoint given by hand."""

    @property
    def account(self) -> str:
        """What limits are counted against: endpoint and credential, without showing either's secret."""

    def size(self, request: Request) -> int:
        """Bytes the request will have on the wire: the input side of its upper bound in tokens."""

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask once, handing each delta to *emit*; never retry, sleep or count money: the gate does.

        Raises:
            ProviderError: no whole answer came; the error says whether trying again may help.
        """

    async def aclose(self) -> None:
        """Release connections."""


class Quirks(Protocol):
    """What an endpoint has turned out not to take."""

    def names(self) -> tuple[str, ...]:
        """Those that hold, in a fixed order: a condition of what was measured."""


@runtime_checkable
class Adaptive(Protocol):
    """A provider that adapts what it sends to what its endpoint refuses. No provider has to be one."""

    @property
    def quirks(self) -> Quirks:
        """What it has learnt so far; grows, and never shrinks, while it is open."""


def quirks_of(provider: Provider) -> tuple[str, ...]:
    """The names of what *provider* has adapted to; empty for one that does not adapt."""
    return provider.quirks.names() if isinstance(provider, Adaptive) else ()


# --- who works --------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Policy:
    """What the run may do. `granted` always holds `read`."""

    mode: Literal["ask", "auto", "full"] = "auto"
    granted: frozenset[Effect] = frozenset({"read"})
    askable: frozenset[Effect] = frozenset()
    """In `ask` mode: effects that are offered and, headless, denied with an `approval_denied` incident."""


@attrs.frozen(kw_only=True)
class AgentSettings:
    """The measured configuration: all that enters the configuration hash (defaults in docs/configuration.md)."""

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
    """The active agent's definition; None is the built-in one."""


@attrs.frozen(kw_only=True)
class Assignment:
    """What a subject is to do, where, and within what bounds."""

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
    """Tokens the model takes in all, where that is known."""
    allow_private: bool = False
    """Whether tools may connect to addresses of this machine and of private networks."""
    sandbox: Sandbox | None = None
    """What the programs it starts are confined by."""
    marker: str = ""
    """SWEEP/POSITION/ATTEMPT: goes into the environment of every process as EVALCTL_ATTEMPT."""
    home: Path | None = None
    """HOME and TMPDIR of every process, outside the workspace, made before the first of them starts; None: the subject
    makes one and removes it."""
    materialise: Callable[[], None] | None = None
    """Puts the workspace on the disk where it is not there yet: called before anything looks at it or works in it."""


@attrs.frozen(kw_only=True)
class ToolUse:
    """One tool call as it happened, for rules over the calls of a run."""

    name: str
    arguments: Json
    is_error: bool


@attrs.frozen(kw_only=True)
class Done:
    """How the subject stopped. Usage counts the turns that made up the work."""

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
    """Only some turns reported cached input."""
    compactions: int = 0
    """Requests for a summary of the transcript; no turns."""
    compaction_usage: Usage | None = None
    """Their own sums, in no other; a field is None unless every one of them reported it."""
    model: str | None = None


class Ask(Protocol):
    """The gate, handed down: the only way from a subject or a judge to a model."""

    async def __call__(self, request: Request) -> Answer:
        """Wait for room, ask, retry as the policy says, settle the spending, record what happened.

        Raises:
            ProviderError: no answer within the retry policy.
        """


Note = Callable[[Event], None]
"""Where a subject records what it did. Never blocks."""


class Subject(Protocol):
    """Works on one assignment; made anew for every attempt."""

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """Do it, reaching models only through *ask*.

        Raises:
            ProviderError: infrastructure failed; a failure the model caused is a `Done` with stop `failed`.
        """

    def so_far(self, reason: str) -> Done:
        """What is known of work that was cancelled, as a `Done` with stop `budget` and this *reason*."""
