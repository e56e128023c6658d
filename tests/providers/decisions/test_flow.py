from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import count
from typing import Any

import anyio
import attrs
import pytest

from providers.base import Answer, Origin, Request, UserText
from providers.decisions.decision import Cause, Decision, Failure, Step
from providers.decisions.flow import run_flow
from providers.decisions.model import Capability, ExecNode, HttpNode, ModelNode, RuleNode
from providers.errors import ErrorKind, ProviderError
from providers.usage import Usage
from store.errors import CapExhausted, StoreFailed

pytestmark = pytest.mark.anyio

ORIGIN = Origin(suite_id="lab", case_id="gate/rm-root", repetition=2, variant="jev")
INPUT = {"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}
VERDICT = {"type": "object", "properties": {"verdict": {"enum": ["allow", "deny"]}}, "required": ["verdict"]}


def rule(node_id: str = "guard", when: str = "true", decision: Any = "ruled") -> RuleNode:
    return RuleNode(id=node_id, when=when, decision=decision)


def model(node_id: str = "judge", **more: Any) -> ModelNode:
    return ModelNode(
        **{"id": node_id, "prompt": "{{ input.tool_name }}", "backend": "house", "model": "m-1", "answer": {}, **more}
    )


def program(node_id: str = "gate", **more: Any) -> ExecNode:
    return ExecNode(**{"id": node_id, "command": ("true",), **more})


def endpoint(node_id: str = "vendor", **more: Any) -> HttpNode:
    return HttpNode(**{"id": node_id, "url": "http://127.0.0.1:9/", **more})


def capability(*flow: ExecNode | HttpNode | ModelNode | RuleNode, **more: Any) -> Capability:
    return Capability(**{"name": "toolgate", "input_schema": {"type": "object"}, "flow": flow, **more})


def said(answer: Any, confidence: float | None = None, **more: Any) -> Answer:
    document = {"answer": answer} if confidence is None else {"answer": answer, "confidence": confidence}
    return Answer(text=json.dumps(document), **more)


def failed(kind: ErrorKind = "server_error", message: str = "broke", **more: Any) -> ProviderError:
    return ProviderError(kind=kind, message=message, retryable=False, **more)


class Asks:
    """Answers by node; remembers who was asked what."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {node.replace("_", "-"): answer for node, answer in answers.items()}
        self.seen: list[tuple[str, Request]] = []

    def __call__(self, name: str) -> Callable[..., Any]:
        async def ask(request: Request) -> Answer:
            self.seen.append((name, request))
            answer = self.answers[request.origin.node]
            if isinstance(answer, BaseException):
                raise answer
            return Answer(text=answer) if isinstance(answer, str) else answer

        return ask

    @property
    def nodes(self) -> list[str]:
        return [request.origin.node for _, request in self.seen]


async def decided(
    what: Capability, asks: Asks | None = None, value: dict[str, Any] = INPUT, clock: Callable[..., Any] | None = None
) -> Decision:
    return await run_flow(what, value, ask_of=asks or Asks(), origin=ORIGIN, clock=clock)


def outcomes(decision: Decision) -> list[tuple[str, str]]:
    return [(step.node, step.outcome) for step in decision.trace]


# --- rules ------------------------------------------------------------------------------------------------------


async def test_the_first_rule_whose_condition_holds_decides_and_nobody_is_asked() -> None:
    flow = capability(rule("a", "input.tool_name == 'Read'", 1), rule("b", "input.tool_name == 'Bash'", 2), model())
    asks = Asks()

    assert await decided(flow, asks) == Decision(
        status="ok",
        decision=2,
        trace=(Step(node="a", source="rule", outcome="passed"), Step(node="b", source="rule", outcome="decided")),
    )
    assert asks.seen == []


async def test_a_flow_that_comes_to_its_end_abstains() -> None:
    assert await decided(capability(rule(when="false"))) == Decision(
        status="abstain", abstain="no node decided", trace=(Step(node="guard", source="rule", outcome="passed"),)
    )


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("input.nope == 1", 'Key not found in map : "nope"'),
        ("input.tool_name", 'expected true or false, got of type string: "Bash"'),
    ],
)
async def test_a_rule_that_is_neither_true_nor_false_ends_the_flow_as_an_error(when: str, reason: str) -> None:
    decision = await decided(capability(rule(when=when), rule("next")))

    message = f"the condition is neither true nor false: {reason}"
    assert (decision.status, decision.error) == ("error", Failure(cause="rule", message=message, node="guard"))
    assert decision.trace == (Step(node="guard", source="rule", outcome="failed", reason=message),)


# --- who is asked -----------------------------------------------------------------------------------------------


async def test_a_model_is_asked_with_its_prompt_and_the_form_of_its_answer() -> None:
    node = model(
        system="Be strict about {{ input.tool_name }}.",
        prompt="Tool: {{ input.tool_name }} {{ input.tool_input }}",
        answer=VERDICT,
        max_output_tokens=99,
        timeout_ms=1500,
    )
    asks = Asks(judge=said({"verdict": "deny"}, 0.9))

    decision = await decided(capability(node), asks)

    [(name, request)] = asks.seen
    assert name == "house"
    assert request.origin == attrs.evolve(ORIGIN, node="judge")
    assert (request.model, request.max_output_tokens, request.timeout_ms) == ("m-1", 99, 1500)
    assert request.answer_schema == VERDICT
    assert request.messages == (UserText(text='Tool: Bash {"command": "rm -rf /"}'),)
    assert request.instructions.startswith("Be strict about Bash.\n\nAnswer with one JSON object")
    assert json.dumps(VERDICT) in request.instructions
    assert (decision.status, decision.decision, decision.confidence) == ("ok", {"verdict": "deny"}, 0.9)


@pytest.mark.parametrize(
    ("node", "name"), [(program(), "exec:toolgate/gate"), (endpoint("gate"), "http:toolgate/gate")]
)
async def test_a_specialist_is_asked_with_the_input_and_its_whole_answer_is_the_decision(
    node: ExecNode | HttpNode, name: str
) -> None:
    asks = Asks(gate='{"verdict": "añ", "confidence": 0.25}')

    decision = await decided(capability(node), asks, {"añ": [1, 2.5, None]})

    [(asked, request)] = asks.seen
    assert asked == name
    assert request.messages == (UserText(text='{"añ":[1,2.5,null]}'),)
    assert (request.model, request.instructions, request.answer_schema, request.timeout_ms) == ("", "", None, 60_000)
    assert (decision.decision, decision.confidence) == ({"verdict": "añ", "confidence": 0.25}, 0.25)


async def test_an_answer_that_does_not_decide_is_there_for_later_rules_and_prompts() -> None:
    flow = capability(
        model("triage", decides=False),
        program("second", decides=False),
        rule(when="answers.triage.queue == 'a' && answers.second == 7", decision="both"),
    )
    asks = Asks(triage=said({"queue": "a"}), second="7")

    decision = await decided(flow, asks)

    assert decision.decision == "both"
    assert outcomes(decision) == [("triage", "answered"), ("second", "answered"), ("guard", "decided")]
    told = capability(model("triage", decides=False), model(prompt="It is {{ answers.triage.queue }}"))
    asks = Asks(triage=said({"queue": "a"}), judge=said(1))
    await decided(told, asks)
    assert asks.seen[1][1].messages == (UserText(text="It is a"),)


async def test_nodes_are_tried_in_the_order_of_the_flow() -> None:
    flow = capability(model("c", decides=False), model("a", decides=False), model("b"), model("never"))
    asks = Asks(c=said(1), a=said(1), b=said(1))

    await decided(flow, asks)

    assert asks.nodes == ["c", "a", "b"]


# --- confidence -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability_minimum", "node_minimum", "confidence", "reason"),
    [
        (0.0, None, None, None),
        (0.0, None, 0.0, None),
        (0.6, None, 0.6, None),
        (0.6, None, 0.59, "a confidence of 0.59 is below 0.6"),
        (0.6, None, None, "no confidence was given, but at least 0.6 is required"),
        (0.6, 0.0, None, None),
        (0.6, 0.2, 0.3, None),
        (0.0, 0.2, 0.1, "a confidence of 0.1 is below 0.2"),
        (0.0, 1.0, 1.0, None),
    ],
)
async def test_who_is_less_sure_than_the_minimum_abstains(
    capability_minimum: float, node_minimum: float | None, confidence: float | None, reason: str | None
) -> None:
    flow = capability(model(min_confidence=node_minimum), min_confidence=capability_minimum)

    decision = await decided(flow, Asks(judge=said("x", confidence)))

    assert (decision.status, decision.abstain) == (("ok", None) if reason is None else ("abstain", reason))
    assert decision.trace[0].confidence == confidence
    assert decision.trace[0].reason == reason


async def test_the_minimum_holds_for_answers_that_do_not_decide() -> None:
    flow = capability(model(decides=False, min_confidence=0.5), rule())

    assert (await decided(flow, Asks(judge=said("x", 0.4)))).status == "abstain"


@pytest.mark.parametrize(
    ("node", "answer", "reason"),
    [
        (model(), said(None), "the model abstained"),
        (program(), '{"abstain": "out of hours"}', "out of hours"),
        (endpoint(), "null", "the specialist answered null"),
    ],
)
async def test_whoever_is_asked_may_abstain(
    node: ModelNode | ExecNode | HttpNode, answer: str | Answer, reason: str
) -> None:
    decision = await decided(capability(node, rule("never")), Asks(**{node.id: answer}))

    assert (decision.status, decision.abstain, decision.decision) == ("abstain", reason, None)
    assert outcomes(decision) == [(node.id, "abstained")]


# --- failures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [model(), program(), endpoint()], ids=lambda node: node.kind)
@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("auth", "auth"),
        ("permission", "auth"),
        ("quota", "quota"),
        ("timeout", "timeout"),
        ("server_error", None),
        ("network", None),
        ("bad_payload", None),
        ("rate_limit", None),
    ],
)
async def test_a_provider_that_does_not_answer_fails_its_node_with_the_cause(
    node: ModelNode | ExecNode | HttpNode, kind: ErrorKind, cause: Cause | None
) -> None:
    error = failed(kind, "it broke", status=503, usage=Usage(input=7))

    decision = await decided(capability(node, rule("never")), Asks(**{node.id: error}))

    expected: Cause = cause or ("provider" if node.kind == "model" else "specialist")
    message = f"{kind}: it broke" if node.kind == "exec" else f"{kind} (HTTP 503): it broke"
    assert (decision.status, decision.error) == ("error", Failure(cause=expected, message=message, node=node.id))
    assert (decision.trace[0].outcome, decision.trace[0].reason) == ("failed", message)
    assert decision.trace[0].usage == Usage(input=7)


@pytest.mark.parametrize(
    ("node", "answer"),
    [
        (model(answer=VERDICT), said({"verdict": "maybe"}, 0.9)),
        (model(), "no idea"),
        (model(), Answer(text="", refusal="I will not")),
        (model(), '{"answer": 1, "confidence": true}'),
        (program(), "Traceback"),
        (endpoint(), '{"confidence": 7}'),
        (program(), "[" * 10_000),
    ],
)
async def test_an_answer_that_is_not_of_the_form_fails_its_node(
    node: ModelNode | ExecNode | HttpNode, answer: str | Answer
) -> None:
    decision = await decided(capability(node), Asks(**{node.id: answer}))

    cause = "bad_answer" if node.kind == "model" else "specialist"
    assert (decision.status, decision.error.cause, decision.error.node) == ("error", cause, node.id)
    assert decision.error.message.isprintable()


async def test_messages_of_errors_are_tame() -> None:
    decision = await decided(capability(model()), Asks(judge=failed(message="\x1b[2J" + "x" * 5000)))

    assert decision.error.message.isprintable()
    assert len(decision.error.message) <= 300


@pytest.mark.parametrize(
    "error",
    [CapExhausted("max-calls"), StoreFailed("lab.db", "full"), KeyError("a bug"), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
async def test_everything_but_a_providers_error_passes_through_whatever_the_fallback(error: BaseException) -> None:
    flow = capability(model(fallback="guard"), rule())

    with pytest.raises(type(error)):
        await decided(flow, Asks(judge=error))


async def test_a_flow_that_is_cancelled_ends() -> None:
    def ask_of(_name: str) -> Callable[..., Any]:
        async def ask(_request: Request) -> None:
            await anyio.sleep_forever()

        return ask

    with anyio.move_on_after(0.01) as scope:
        await run_flow(capability(model()), INPUT, ask_of=ask_of, origin=ORIGIN, clock=None)
    assert scope.cancelled_caught


# --- fallbacks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [failed(), failed("timeout"), said(None), said("x", 0.1), "rubbish"],
    ids=["fails", "is late", "abstains", "doubts", "rubbish"],
)
async def test_who_does_not_decide_is_replaced_by_its_fallback(answer: str | Answer | ProviderError) -> None:
    flow = capability(model("first", fallback="second", min_confidence=0.5), rule("between"), model("second"))
    asks = Asks(first=answer, second=said("y"))

    decision = await decided(flow, asks)

    assert (decision.status, decision.decision) == ("ok", "y")
    assert asks.nodes == ["first", "second"]


async def test_a_chain_of_fallbacks_ends_as_its_last_one_ended() -> None:
    flow = capability(model("a", fallback="b"), program("b", fallback="c"), endpoint("c"), rule("never"))

    decision = await decided(flow, Asks(a=failed(), b="null", c=failed("quota")))

    assert decision.error == Failure(cause="quota", message="quota: broke", node="c")
    assert outcomes(decision) == [("a", "failed"), ("b", "abstained"), ("c", "failed")]
    decision = await decided(flow, Asks(a=failed(), b=failed(), c='{"abstain": "no"}'))
    assert (decision.status, decision.abstain, decision.error) == ("abstain", "no", None)


async def test_a_fallback_is_reached_in_no_other_way() -> None:
    flow = capability(model("second"), model("first", fallback="second", decides=False), rule("last"))
    asks = Asks(first=said(1))

    assert outcomes(await decided(flow, asks)) == [("first", "answered"), ("last", "decided")]


async def test_a_fallback_that_does_not_decide_hands_on_to_what_follows_the_first() -> None:
    flow = capability(
        model("first", fallback="second", decides=False),
        rule(when="answers.second == 1", decision="heard"),
        model("second", decides=False),
    )

    decision = await decided(flow, Asks(first=failed(), second=said(1)))

    assert decision.decision == "heard"
    assert outcomes(decision) == [("first", "failed"), ("second", "answered"), ("guard", "decided")]


async def test_a_rule_may_be_a_fallback() -> None:
    flow = capability(program(fallback="guard"), rule(when="input.tool_name == 'Bash'", decision="ask"), rule("last"))

    assert (await decided(flow, Asks(gate=failed()))).decision == "ask"
    other = await decided(flow, Asks(gate=failed()), {"tool_name": "Read"})
    assert outcomes(other) == [("gate", "failed"), ("guard", "passed"), ("last", "decided")]


async def test_one_node_may_be_the_fallback_of_several() -> None:
    flow = capability(
        model("a", fallback="both", decides=False), model("b", fallback="both"), model("both", decides=False)
    )

    decision = await decided(flow, Asks(a=failed(), b=failed(), both=said(1)))

    assert outcomes(decision) == [("a", "failed"), ("both", "answered"), ("b", "failed"), ("both", "answered")]
    assert decision.abstain == "no node decided"


async def test_a_circle_of_fallbacks_ends() -> None:
    flow = capability(model("start", fallback="a"), model("a", fallback="b"), model("b", fallback="a"))

    decision = await decided(flow, Asks(start=failed(), a=failed(), b=failed()))

    assert outcomes(decision) == [("start", "failed"), ("a", "failed"), ("b", "failed")]


# --- schemas ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"tool_name": 3}, 'the input violates its schema: tool_name: 3 is not of type "string"'),
        ({}, 'the input violates its schema: "tool_name" is a required property'),
        ({"tool_name": "\ud800"}, "the input violates its schema: the value holds a lone surrogate, which is no text"),
    ],
)
async def test_an_input_that_breaks_its_schema_is_an_error_and_nothing_is_tried(
    value: dict[str, Any], message: str
) -> None:
    schema = {"properties": {"tool_name": {"type": "string"}}, "required": ["tool_name"]}

    assert await decided(capability(rule(), input_schema=schema), value=value) == Decision(
        status="error", error=Failure(cause="input", message=message)
    )


@pytest.mark.parametrize("node", [rule("it", decision={"verdict": "maybe"}), program("it")])
async def test_a_decision_that_breaks_the_outputs_schema_is_an_error(node: ExecNode | RuleNode) -> None:
    asks = Asks(it='{"verdict": "maybe"}')

    decision = await decided(capability(node, output_schema=VERDICT), asks)

    message = 'the decision violates the output\'s schema: verdict: "maybe" is not one of "allow" or "deny"'
    assert decision.error == Failure(cause="output", message=message, node="it")
    assert (decision.status, decision.decision, decision.confidence) == ("error", None, None)


async def test_only_what_decides_is_held_against_the_outputs_schema() -> None:
    flow = capability(program(decides=False), rule(decision={"verdict": "deny"}), output_schema=VERDICT)

    assert (await decided(flow, Asks(gate="7"))).status == "ok"


# --- the trace --------------------------------------------------------------------------------------------------


async def test_the_trace_says_who_did_what() -> None:
    flow = capability(
        rule(when="false"),
        program(fallback="judge"),
        model(min_confidence=0.5),
    )
    usage = Usage(input=12, output=3)

    decision = await decided(flow, Asks(gate='{"abstain": "no"}', judge=said("deny", 0.75, usage=usage, model="m-1.3")))

    assert decision.trace == (
        Step(node="guard", source="rule", outcome="passed"),
        Step(node="gate", source="exec", outcome="abstained", reason="no"),
        Step(
            node="judge", source="model", outcome="decided", backend="house", model="m-1", usage=usage, confidence=0.75
        ),
    )
    assert json.loads(json.dumps(decision.to_json()))["trace"][2]["usage"] == {"input": 12, "output": 3}


async def test_a_clock_measures_each_node_and_without_one_nothing_is_measured() -> None:
    flow = capability(rule(when="false"), model(decides=False), program())
    ticks = count()

    measured = await decided(flow, Asks(judge=said(1), gate="1"), clock=lambda: next(ticks) * 2.5)
    unmeasured = await decided(flow, Asks(judge=said(1), gate="1"))

    assert [step.ms for step in measured.trace] == [2500, 2500, 2500]
    assert [step.ms for step in unmeasured.trace] == [None, None, None]


async def test_a_clock_that_goes_back_measures_nothing_negative() -> None:
    ticks = count(0, -1)

    assert (await decided(capability(rule()), clock=lambda: next(ticks))).trace[0].ms == 0


async def test_the_same_answers_give_the_same_decision() -> None:
    flow = capability(
        rule(when="false"), model(decides=False), program(min_confidence=0.5, fallback="v"), endpoint("v")
    )
    answers = {"judge": said({"b": 1, "a": 2}, 0.1), "gate": failed("timeout"), "v": '{"x": 1}'}

    first, second = [await decided(flow, Asks(**answers)) for _ in range(2)]

    assert json.dumps(first.to_json()) == json.dumps(second.to_json())
