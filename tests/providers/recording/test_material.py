"""What is compared of two requests, and how their first difference is called."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from providers.base import AssistantTurn, Origin, Request, ToolAnswer, ToolCall, ToolSpec, UserText
from providers.recording.material import (
    ABSENT_MARK,
    Difference,
    build_material,
    compute_fingerprint,
    find_first_difference,
)
from store.documents.canonical import encode_canonical

TOOLS = tuple(ToolSpec(name=name, description=f"does {name}", input_schema={"type": "object"}) for name in ("a", "b"))


def asked(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "origin": Origin(suite_id="s", case_id="t", repetition=0),
        "model": "m",
        "instructions": "do it",
        "messages": (
            UserText(text="please"),
            AssistantTurn(text="", calls=(ToolCall(id="1", name="a", arguments={"x": 1, "y": 2}),)),
            ToolAnswer(call_id="1", name="a", text='{"sum": 3}'),
        ),
        "tools": TOOLS,
    }
    return build_material(Request(**(values | changes)))


def differing(**changes: Any) -> Difference:
    found = find_first_difference(asked(), asked(**changes))
    assert found is not None
    return found


def test_equal_requests_do_not_differ() -> None:
    assert find_first_difference(asked(), asked()) is None
    assert compute_fingerprint(asked()) == compute_fingerprint(asked())


def test_what_only_steers_is_not_compared() -> None:
    origin = Origin(suite_id="s", case_id="t", repetition=3)
    assert (
        asked(origin=origin, key="S/1/1/1", tries=2, turn=7, first_token_timeout_ms=7, purpose="compaction") == asked()
    )


def test_the_order_of_keys_does_not_matter() -> None:
    call = ToolCall(id="1", name="a", arguments={"y": 2, "x": 1})
    turn = AssistantTurn(text="", calls=(call,))
    other = asked(messages=(UserText(text="please"), turn, ToolAnswer(call_id="1", name="a", text='{"sum": 3}')))
    assert compute_fingerprint(other) == compute_fingerprint(asked())


def test_the_fingerprint_is_taken_over_canonical_json() -> None:
    assert compute_fingerprint(asked()) == hashlib.sha256(encode_canonical(asked())).hexdigest()


def test_a_lone_surrogate_has_a_fingerprint() -> None:
    assert compute_fingerprint(asked(instructions="\ud800")) != compute_fingerprint(asked(instructions="\udfff"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": "n"}, "model"),
        ({"instructions": "do it not"}, "instructions"),
        ({"tools": (TOOLS[0], ToolSpec(name="b", description="B", input_schema={}))}, "tools[b].description"),
        ({"tools": (TOOLS[0],)}, "tools[b]"),
        ({"tools": (*TOOLS, ToolSpec(name="c", description="", input_schema={}))}, "tools[c]"),
        ({"tools": TOOLS[::-1]}, "tools (their order)"),
        ({"max_output_tokens": 5}, "maxOutputTokens"),
        ({"reasoning_effort": "high"}, "reasoningEffort"),
        ({"native_tools": ({"type": "web"},)}, "nativeTools[0]"),
        ({"messages": (UserText(text="do"),)}, "messages[0].user.text"),
        ({"messages": ()}, "messages[0]"),
    ],
)
def test_the_first_difference_is_named(changes: dict[str, Any], field: str) -> None:
    assert differing(**changes).field == field


def test_a_tool_s_result_and_its_excerpts_are_named() -> None:
    before = asked()["messages"]
    after = asked(
        messages=(
            UserText(text="please"),
            AssistantTurn(text="", calls=(ToolCall(id="1", name="a", arguments={"x": 1, "y": 2}),)),
            ToolAnswer(call_id="1", name="a", text='{"sum": 4}'),
        )
    )
    found = find_first_difference(asked(), after)
    assert found is not None
    assert before != after["messages"]
    assert found.field == "messages[2].tool.result"
    assert (found.recorded, found.asked) == ('"{\\"sum\\": 3}"', '"{\\"sum\\": 4}"')


def test_a_tool_s_schema_is_named_to_the_leaf() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "integer"}}}
    other = (TOOLS[0], ToolSpec(name="b", description="does b", input_schema=schema))
    assert differing(tools=other).field == "tools[b].inputSchema.properties"


def test_an_excerpt_shows_the_place_and_no_control_character() -> None:
    found = find_first_difference(
        asked(instructions="x" * 1000 + "\x1b[31mA"), asked(instructions="x" * 1000 + "\x1b[31mB")
    )
    assert found is not None
    assert found.recorded == f'…"{"x" * 35}\\u001b[31mA"'
    assert found.asked.endswith('B"')


def test_what_is_missing_is_said_to_be() -> None:
    assert differing(tools=(TOOLS[0],)).asked == ABSENT_MARK
