"""Decision flows: runs the nodes in order until one decides, or abstains or fails without a fallback."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping

import attrs

from providers.answer_form import describe_form
from providers.base import Answer, Ask, Origin, Request, UserText
from providers.decisions.answers import Abstention, BadAnswer, NodeAnswer, read_model_answer, read_specialist_answer
from providers.decisions.cel import RULE_VARIABLES, CelEvaluationError, Expression
from providers.decisions.cel import compile_expression as compiled
from providers.decisions.decision import Cause, Decision, Failure, NodeOutcome, Step
from providers.decisions.excerpts import render_line
from providers.decisions.model import AskingNode, Capability, ExecNode, ModelNode, Node, RuleNode
from providers.decisions.prompts import render_template
from providers.decisions.schema import JsonSchema, summarise_problems
from providers.errors import ProviderError
from providers.usage import Usage
from store.events import Json

AskByName = Callable[[str], Ask]
"""Returns the gate to a provider by its name from `Capability.find_provider_name`."""
Clock = Callable[[], float]
"""A monotonic clock in seconds."""

NO_NODE_DECIDED = "no node decided"
"""The reason for the abstention of a flow in which no node decided."""

_CAUSES_BY_KIND: Mapping[str, Cause] = {"auth": "auth", "permission": "auth", "quota": "quota", "timeout": "timeout"}
"""Cause by a provider error's kind; all other kinds depend on the kind of node."""


async def run_flow(
    capability: Capability, value: Json, *, ask_of: AskByName, origin: Origin, clock: Clock | None
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
        ask_of: see `AskByName`; every answer is requested once.
        origin: the origin of the requests, to which their node is added.
        clock: measures durations; None: nothing is measured.

    Raises:
        EvalctlError: any error but a `ProviderError`, which becomes a failure of its node.
    """
    if problems := _load_schema(capability.input_schema).find_problems(value):
        return Decision(
            status="error",
            error=Failure(cause="input", message=f"the input violates its schema: {summarise_problems(problems)}"),
        )
    return await _FlowRun(capability=capability, input=value, ask_of=ask_of, origin=origin, clock=clock).run_nodes()


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


_NodeResult = _Passed | _Decided | NodeAnswer | Abstention | _Failed
"""Result of a node; `NodeAnswer` is an answer for later nodes."""

_OUTCOME_NAMES: Mapping[type[_NodeResult], NodeOutcome] = {
    _Passed: "passed",
    _Decided: "decided",
    NodeAnswer: "answered",
    Abstention: "abstained",
    _Failed: "failed",
}


@attrs.define
class _AnswerFacts:
    """Usage and confidence of an answer, for the trace."""

    usage: Usage | None = None
    confidence: float | None = None


@attrs.define(kw_only=True)
class _FlowRun:
    """One run of a flow."""

    capability: Capability
    input: Json
    ask_of: AskByName
    origin: Origin
    clock: Clock | None
    answers: dict[str, Json] = attrs.field(factory=dict)
    trace: list[Step] = attrs.field(factory=list)

    async def run_nodes(self) -> Decision:
        replacing = {node.fallback for node in self.capability.list_asking_nodes()}
        for first in self.capability.flow:
            if first.id in replacing:
                continue
            for node in self._walk_fallbacks(first):
                outcome = await self._try_node(node)
                if isinstance(outcome, _Decided):
                    return self._build_decision(node, outcome)
                if isinstance(outcome, _Passed | NodeAnswer):
                    break
            else:
                return self._build_undecided(node, outcome)
        return Decision(status="abstain", abstain=NO_NODE_DECIDED, trace=tuple(self.trace))

    def _walk_fallbacks(self, first: Node) -> Iterator[Node]:
        """Yield a node, its fallback, that one's fallback and so on, each once."""
        nodes = {node.id: node for node in self.capability.flow}
        node: Node | None = first
        while node is not None:
            yield node
            fallback = node.fallback if not isinstance(node, RuleNode) else None
            del nodes[node.id]
            node = nodes.get(fallback) if fallback is not None else None

    async def _try_node(self, node: Node) -> _NodeResult:
        """Try a node and add its step to the trace."""
        heard = _AnswerFacts()
        begun = self.clock() if self.clock is not None else 0.0
        outcome = self._apply_rule(node) if isinstance(node, RuleNode) else await self._ask_node(node, heard)
        step = Step(
            node=node.id,
            source=node.kind,
            outcome=_OUTCOME_NAMES[type(outcome)],
            backend=node.backend if isinstance(node, ModelNode) else None,
            model=node.model if isinstance(node, ModelNode) else None,
            ms=max(0, round((self.clock() - begun) * 1000)) if self.clock is not None else None,
            usage=heard.usage,
            confidence=heard.confidence,
            reason=_find_reason(outcome),
        )
        self.trace.append(step)
        return outcome

    def _apply_rule(self, node: RuleNode) -> _NodeResult:
        try:
            holds = _compile_condition(node.when).evaluate({"input": self.input, "answers": self.answers})
        except CelEvaluationError as error:
            return _Failed("rule", f"the condition is neither true nor false: {error.reason}")
        return _Decided(node.decision) if holds else _Passed()

    async def _ask_node(self, node: AskingNode, heard: _AnswerFacts) -> _NodeResult:
        try:
            answer = await self.ask_of(self.capability.find_provider_name(node))(self._build_request(node))
        except ProviderError as error:
            heard.usage = error.usage
            if isinstance(node, ExecNode):
                error.status = None  # a recording has a status for every error, but a program has no HTTP status
            return _Failed(_classify_error(node, error), render_line(str(error)))
        heard.usage = answer.usage
        try:
            result = _read_answer(node, answer)
        except BadAnswer as error:
            return _Failed("bad_answer" if isinstance(node, ModelNode) else "specialist", error.message)
        if isinstance(result, Abstention):
            return result
        heard.confidence = result.confidence
        if (doubt := self._check_confidence(node, result.confidence)) is not None:
            return Abstention(doubt)
        if node.decides:
            return _Decided(result.answer, result.confidence)
        self.answers[node.id] = result.answer
        return result

    def _build_request(self, node: AskingNode) -> Request:
        origin = attrs.evolve(self.origin, node=node.id)
        if not isinstance(node, ModelNode):
            text = json.dumps(self.input, ensure_ascii=False, separators=(",", ":"))
            return Request(
                origin=origin, model="", instructions="", messages=(UserText(text=text),), timeout_ms=node.timeout_ms
            )
        values: dict[str, Json] = {"input": self.input, "answers": self.answers}
        instructions = (render_template(node.system, values).strip(), describe_form(node.answer))
        return Request(
            origin=origin,
            model=node.model,
            instructions="\n\n".join(filter(None, instructions)),
            messages=(UserText(text=render_template(node.prompt, values)),),
            max_output_tokens=node.max_output_tokens,
            answer_schema=node.answer,
            timeout_ms=node.timeout_ms,
        )

    def _check_confidence(self, node: AskingNode, confidence: float | None) -> str | None:
        """The reason why an answer of this confidence is rejected; None if it is accepted."""
        minimum = node.min_confidence if node.min_confidence is not None else self.capability.min_confidence
        if minimum <= 0:
            return None
        if confidence is None:
            return f"no confidence was given, but at least {minimum:g} is required"
        return f"a confidence of {confidence:g} is below {minimum:g}" if confidence < minimum else None

    # --- endings ------------------------------------------------------------------------------------------------

    def _build_decision(self, node: Node, outcome: _Decided) -> Decision:
        trace = tuple(self.trace)
        schema = self.capability.output_schema
        if schema is not None and (problems := _load_schema(schema).find_problems(outcome.decision)):
            message = f"the decision violates the output's schema: {summarise_problems(problems)}"
            return Decision(status="error", error=Failure(cause="output", message=message, node=node.id), trace=trace)
        return Decision(status="ok", decision=outcome.decision, confidence=outcome.confidence, trace=trace)

    def _build_undecided(self, node: Node, outcome: _NodeResult) -> Decision:
        trace = tuple(self.trace)
        if isinstance(outcome, Abstention):
            return Decision(status="abstain", abstain=outcome.reason, trace=trace)
        assert isinstance(outcome, _Failed)
        failure = Failure(cause=outcome.cause, message=outcome.message, node=node.id)
        return Decision(status="error", error=failure, trace=trace)


def _read_answer(node: AskingNode, answer: Answer) -> NodeAnswer | Abstention:
    if isinstance(node, ModelNode):
        return read_model_answer(answer, _load_schema(node.answer))
    return read_specialist_answer(answer.text, node.confidence)


def _classify_error(node: AskingNode, error: ProviderError) -> Cause:
    return _CAUSES_BY_KIND.get(error.kind, "provider" if isinstance(node, ModelNode) else "specialist")


def _find_reason(outcome: _NodeResult) -> str | None:
    if isinstance(outcome, Abstention):
        return outcome.reason
    return outcome.message if isinstance(outcome, _Failed) else None


def _load_schema(document: Mapping[str, Json]) -> JsonSchema:
    return _parse_schema(json.dumps(document))


@functools.lru_cache(maxsize=256)
def _parse_schema(text: str) -> JsonSchema:
    return JsonSchema(json.loads(text))


@functools.lru_cache(maxsize=256)
def _compile_condition(text: str) -> Expression:
    return compiled(text, RULE_VARIABLES)
