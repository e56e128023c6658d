import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.answer_form import describe_form
from providers.decisions.prompts import BadTemplate, list_placeholders, render_template

VALUES = {
    "input": {
        "tool_name": "Bash",
        "tool_input": {"command": "rm -rf /", "n": 3, "ok": True, "list": ["a", {"b": "ñ"}]},
    },
    "answers": {"root-guard": {"queue": "billing"}},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Tool: {{ input.tool_name }}!", "Tool: Bash!"),
        ("{{input.tool_name}}{{  input.tool_name\n}}", "BashBash"),
        ("{{ answers.root-guard.queue }}", "billing"),
        ("{{ input.tool_input.n }} {{ input.tool_input.ok }}", "3 true"),
        ("{{ input.tool_input.list }}", '["a", {"b": "ñ"}]'),
        ("{{ input.tool_input.list.0 }} {{ input.tool_input.list.1.b }}", "a ñ"),
        ("{{ input.nope }} {{ input.tool_name.x }} {{ input.tool_input.list.2 }}", "null null null"),
        ("{{ answers }}", '{"root-guard": {"queue": "billing"}}'),
        ('no place: { "a": {"b": 1}} }}', 'no place: { "a": {"b": 1}} }}'),
        ("", ""),
    ],
)
def test_places_are_filled_in(template: str, text: str) -> None:
    assert render_template(template, VALUES) == text


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    values = {"input": {"a": "{{ input.secret }}", "secret": "x"}, "answers": {}}

    assert render_template("{{ input.a }}", values) == "{{ input.secret }}"


def test_the_paths_of_a_template_are_told_in_their_order() -> None:
    assert list_placeholders("{{ input.a.0 }} and {{ answers.root-guard }}") == (
        ("input", "a", "0"),
        ("answers", "root-guard"),
    )
    assert list_placeholders("none") == ()


@pytest.mark.parametrize(
    ("template", "offset", "message"),
    [
        ("Say {{ output.x }}", 4, "expected input or answers, got 'output'"),
        ("Say {{ inputs }}", 4, "expected input or answers, got 'inputs'"),
        ("{{ input.a }} {{ input.b", 14, "`{{` without `}}`"),
        ("{{ input.a", 0, "`{{` without `}}`"),
        ("{{ }}", 0, "expected a path such as input.name, got ''"),
        ("{{ input. }}", 0, "expected a path such as input.name, got 'input.'"),
        ("{{ input['a'] }}", 0, "expected a path such as input.name, got \"input['a']\""),
        ("{{ input | upper }}", 0, "expected a path such as input.name, got 'input | upper'"),
    ],
)
def test_a_template_that_cannot_be_filled_in_says_where(template: str, offset: int, message: str) -> None:
    for look in (list_placeholders, lambda text: render_template(text, VALUES)):
        with pytest.raises(BadTemplate) as raised:
            look(template)
        assert (raised.value.offset, raised.value.message) == (offset, message)


def test_a_model_is_told_the_schema_of_its_answer() -> None:
    schema = {"type": "object", "properties": {"verdict": {"enum": ["allow", "deny"]}}}

    assert json.dumps(schema) in describe_form(schema)


@given(st.text(), st.text())
def test_a_text_of_the_input_comes_through_unchanged(before: str, text: str) -> None:
    before = before.replace("{{", "")

    assert render_template(before + " {{ input.a }}", {"input": {"a": text}, "answers": {}}) == f"{before} {text}"
