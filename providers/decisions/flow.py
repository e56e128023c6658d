"""Decision flows: runs the nodes in order until one decides, or abstains or fails without a fallback."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping

import attrs

from providers.answer_form import describe_form
from providers.base import Answer, Ask, Origin, Request, UserText
from providers.decisions.answers import Abstained, BadAnswer, Said, of_model, of_specialist
from providers.decisions.cel import RULE_VARIABLES, Expression, Unevaluable
from providers.decisions.cel import compile as compiled
from providers.decisions.decision import Cause, Decision, Failure, Outcome, Step
from providers.decisions.model import AskingNode, Capability, Exec, Model, Node, Rule
from providers.decisions.prompts import rendered
from providers.decisions.schema import Schema, told
from providers.decisions.shown import line
from providers.errors import ProviderError
from providers.usage import Usage
from store.events import Json

AskOf = Callable[[str], Ask]
"""Returns the gate to a provider by its name from `Capability.asked`."""
Clock = Callable[[], float]
"""A monotonic clock in seconds."""

NO_NODE = "no node decided"
"""The reason for the abstention of a flow in which no node decided."""

_CAUSES: Mapping[str, Cause] = {"auth": "auth", "permission": "auth", "quota": "quota", "timeout": "timeout"}
"""Cause by a provider error's kind; all other kinds depend on the kind of node."""


async def decide(
    capability: Capability, value: Json, *, ask_of: AskOf, origin: Origin, clock: Clock | None
) -> Decision:
    """Run the flow of *capability* on the input *value*.

    1. Nodes are tried in the flow's order. A node that is another's `fallback` is reached only through it.
    2. A rule decides if its condition is true, otherwise the next node is tried.
    3. A model or specialist decides or, with `decides: false`, adds its answer for later nodes.
    4. If it abstains, fails, or has less confidence than the node's minimum, its fallback is tried. Without a fallback
       the flow ends with that abstention or failure.
    5. If no node decides, the flow abstains.

    Args:
        capability: the flow, with schemas, conditions and templates already validated.
        value: the input.
        ask_of: see `AskOf`; every answer is requested once.
        origin: the origin of the requests, to which their node is added.
        clock: measures durations; None: nothing is measured.

    Raises:
        EvalctlError: any error but a `ProviderError`, which becomes a failure of its node.
    """
    if found := _schema(capability.input_schema).problems(value):
        return Decision(
            status="error", error=Failure(cause="input", message=f"the input violates its schema: {told(found)}")
        )
    return await _Flow(capability=capability, input=value, ask_of=ask_of, origin=origin, clock=clock).run()


@attrs.frozen
class _Passed:
    """The next node is tried."""


@attrs.frozen
class _Decided:
    decision: Json
    confidence: float | None = None


@attrs.frozen
class _Failed:
    cause: Cause
    message: str


_Outcome = _Passed | _Decided | Said | Abstained | _Failed
"""Result of a node; `Said` is an answer for later nodes."""

_WORDS: Mapping[type[_Outcome], Outcome] = {
    _Passed: "passed",
    _Decided: "decided",
    Said: "answered",
    Abstained: "abstained",
    _Failed: "failed",
}


@attrs.define
class _Heard:
    """Usage and confidence of an answer, for the trace."""

    usage: Usage | None = None
    confidence: float | None = None


@attrs.define(kw_only=True)
class _Flow:
    """One run of a flow."""

    capability: Capability
    input: Json
    ask_of: AskOf
    origin: Origin
    clock: Clock | None
    answers: dict[str, Json] = attrs.field(factory=dict)
    trace: list[Step] = attrs.field(factory=list)

    async def run(self) -> Decision:
        replacing = {node.fallback for node in self.capability.asking()}
        for first in self.capability.flow:
            if first.id in replacing:
                continue
            for node in self._chain(first):
                outcome = await self._tried(node)
                if isinstance(outcome, _Decided):
                    return self._decided(node, outcome)
                if isinstance(outcome, _Passed | Said):
                    break
            else:
                return self._undecided(node, outcome)
        return Decision(status="abstain", abstain=NO_NODE, trace=tuple(self.trace))

    def _chain(self, first: Node) -> Iterator[Node]:
        """Yield a node, its fallback, that one's fallback and so on, each once."""
        nodes = {node.id: node for node in self.capability.flow}
        node: Node | None = first
        while node is not None:
            yield node
            fallback = node.fallback if not isinstance(node, Rule) else None
            del nodes[node.id]
            node = nodes.get(fallback) if fallback is not None else None

    async def _tried(self, node: Node) -> _Outcome:
        """Try a node and add its step to the trace."""
        heard = _Heard()
        begun = self.clock() if self.clock is not None else 0.0
        outcome = self._ruled(node) if isinstance(node, Rule) else await self._asked(node, heard)
        step = Step(
            node=node.id,
            source=node.kind,
            outcome=_WORDS[type(outcome)],
            backend=node.backend if isinstance(node, Model) else None,
            model=node.model if isinstance(node, Model) else None,
            ms=max(0, round((self.clock() - begun) * 1000)) if self.clock is not None else None,
            usage=heard.usage,
            confidence=heard.confidence,
            reason=_why(outcome),
        )
        self.trace.append(step)
        return outcome

    def _ruled(self, node: Rule) -> _Outcome:
        try:
            holds = _condition(node.when).evaluate({"input": self.input, "answers": self.answers})
        except Unevaluable as error:
            return _Failed("rule", f"the condition is neither true nor false: {error.reason}")
        return _Decided(node.decision) if holds else _Passed()

    async def _asked(self, node: AskingNode, heard: _Heard) -> _Outcome:
        try:
            answer = await self.ask_of(self.capability.asked(node))(self._request(node))
        except ProviderError as error:
            heard.usage = error.usage
            if isinstance(node, Exec):
                error.status = None  # a recording has a status for every error, but a program has no HTTP status
            return _Failed(_cause(node, error), line(str(error)))
        heard.usage = answer.usage
        try:
            said = _read(node, answer)
        except BadAnswer as error:
            return _Failed("bad_answer" if isinstance(node, Model) else "specialist", error.message)
        if isinstance(said, Abstained):
            return said
        heard.confidence = said.confidence
        if (doubt := self._doubt(node, said.confidence)) is not None:
            return Abstained(doubt)
        if node.decides:
            return _Decided(said.answer, said.confidence)
        self.answers[node.id] = said.answer
        return said

    def _request(self, node: AskingNode) -> Request:
        origin = attrs.evolve(self.origin, node=node.id)
        if not isinstance(node, Model):
            text = json.dumps(self.input, ensure_ascii=False, separators=(",", ":"))
            return Request(
                origin=origin, model="", instructions="", messages=(UserText(text=text),), timeout_ms=node.timeout_ms
            )
        values: dict[str, Json] = {"input": self.input, "answers": self.answers}
        instructions = (rendered(node.system, values).strip(), describe_form(node.answer))
        return Request(
            origin=origin,
            model=node.model,
            instructions="\n\n".join(filter(None, instructions)),
            messages=(UserText(text=rendered(node.prompt, values)),),
            max_output_tokens=node.max_output_tokens,
            answer_schema=node.answer,
            timeout_ms=node.timeout_ms,
        )

    def _doubt(self, node: AskingNode, confidence: float | None) -> str | None:
        """The reason why an answer of this confidence is rejected; None if it is accepted."""
        minimum = node.min_confidence if node.min_confidence is not None else self.capability.min_confidence
        if minimum <= 0:
            return None
        if confidence is None:
            return f"no confidence was given, but at least {minimum:g} is required"
        return f"a confidence of {confidence:g} is below {minimum:g}" if confidence < minimum else None

    # --- endings ------------------------------------------------------------------------------------------------

    def _decided(self, node: Node, outcome: _Decided) -> Decision:
        trace = tuple(self.trace)
        schema = self.capability.output_schema
        if schema is not None and (found := _schema(schema).problems(outcome.decision)):
            message = f"the decision violates the output's schema: {told(found)}"
            return Decision(status="error", error=Failure(cause="output", message=message, node=node.id), trace=trace)
        return Decision(status="ok", decision=outcome.decision, confidence=outcome.confidence, trace=trace)

    def _undecided(self, node: Node, outcome: _Outcome) -> Decision:
        trace = tuple(self.trace)
        if isinstance(outcome, Abstained):
            return Decision(status="abstain", abstain=outcome.reason, trace=trace)
        assert isinstance(outcome, _Failed)
        failure = Failure(cause=outcome.cause, message=outcome.message, node=node.id)
        return Decision(status="error", error=failure, trace=trace)


def _read(node: AskingNode, answer: Answer) -> Said | Abstained:
    if isinstance(node, Model):
        return of_model(answer, _schema(node.answer))
    return of_specialist(answer.text, node.confidence)


def _cause(node: AskingNode, error: ProviderError) -> Cause:
    return _CAUSES.get(error.kind, "provider" if isinstance(node, Model) else "specialist")


def _why(outcome: _Outcome) -> str | None:
    if isinstance(outcome, Abstained):
        return outcome.reason
    return outcome.message if isinstance(outcome, _Failed) else None


def _schema(document: Mapping[str, Json]) -> Schema:
    return _schema_of(json.dumps(document))


@functools.lru_cache(maxsize=256)
def _schema_of(text: str) -> Schema:
    return Schema(json.loads(text))


@functools.lru_cache(maxsize=256)
def _condition(text: str) -> Expression:
    return compiled(text, RULE_VARIABLES)
