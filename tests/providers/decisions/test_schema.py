import json
import math
import socket
import subprocess
import sys
import time  # noqa: TID251 - how long it takes is what is tested
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.decisions.schema import MAX_PROBLEMS, BadSchema, JsonSchema, render_path, summarise_problems


def bad(document: Any) -> BadSchema:
    with pytest.raises(BadSchema) as raised:
        JsonSchema(document)
    return raised.value


def messages(schema: Any, value: Any) -> list[str]:
    return [str(problem) for problem in JsonSchema(schema).find_problems(value)]


TOOL = {
    "type": "object",
    "properties": {
        "tool_name": {"type": "string", "minLength": 1},
        "tool_input": {"type": "object", "properties": {"command": {"type": "string"}}},
        "files": {"type": "array", "items": {"type": "object", "required": ["path"]}},
    },
    "required": ["tool_name"],
    "additionalProperties": False,
}


def test_a_value_that_fits_has_no_problems() -> None:
    assert messages(TOOL, {"tool_name": "Bash", "tool_input": {"command": "ls"}, "files": [{"path": "a"}]}) == []
    assert messages(True, {"any": "thing"}) == []
    assert messages({}, None) == []


def test_every_problem_has_its_place_and_the_keyword_that_was_not_kept() -> None:
    problems = JsonSchema(TOOL).find_problems(
        {"tool_name": "", "tool_input": {"command": 3}, "files": [{"path": 1}, {}], "x": 1}
    )

    assert {(problem.path, problem.schema_path) for problem in problems} == {
        (("tool_name",), ("properties", "tool_name", "minLength")),
        (("tool_input", "command"), ("properties", "tool_input", "properties", "command", "type")),
        (("files", 1), ("properties", "files", "items", "required")),
        ((), ("additionalProperties",)),
    }
    assert {str(problem) for problem in problems} == {
        'tool_name: "" is shorter than 1 character',
        'tool_input.command: 3 is not of type "string"',
        'files[1]: "path" is a required property',
        "Additional properties are not allowed ('x' was unexpected)",
    }


@pytest.mark.parametrize(
    ("format_name", "good", "wrong"),
    [
        ("date-time", "2026-11-30T10:15:00Z", "yesterday"),
        ("email", "a@example.com", "a at example"),
        ("uri", "https://example.com/a", "::"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
    ],
)
def test_formats_are_checked(format_name: str, good: str, wrong: str) -> None:
    schema = {"type": "string", "format": format_name}

    assert messages(schema, good) == []
    assert messages(schema, wrong) == [f'"{wrong}" is not a "{format_name}"']


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "objet"}, 'type: "objet" is not a type (array, boolean, integer, null, number, object, string)'),
        ({"properties": {"a": {"minimum": "x"}}}, 'properties.a.minimum: "x" is not of type "number"'),
        ({"pattern": "("}, 'pattern: "(" is not a "regex"'),
        ({"required": "a"}, 'required: "a" is not of type "array"'),
        ({"$ref": "#/$defs/nope"}, "Pointer '/$defs/nope' does not exist"),
        ([], "a JSON Schema must be an object, got []"),
        ("true", 'a JSON Schema must be an object, got "true"'),
        (None, "a JSON Schema must be an object, got null"),
        ({"maxLength": 2**64}, "the schema holds an integer of more than 64 bits"),
        ({"const": math.nan}, "the schema holds a number that is not finite"),
        (
            {"$schema": "http://x.y/z"},
            "Unknown meta-schema: 'http://x.y/z'. Custom meta-schemas must be registered in t",
        ),
    ],
)
def test_what_is_no_schema_says_where_it_is_none(document: Any, message: str) -> None:
    assert str(bad(document)).startswith(message)


def test_the_place_in_a_schema_is_told_as_a_path() -> None:
    assert bad({"properties": {"a": {"type": "strin"}}}).path == ("properties", "a", "type")


@pytest.mark.parametrize("where", ["http://127.0.0.1:{port}/schema.json", "file:///etc/passwd", "other.json", "//x/y"])
def test_nothing_outside_of_a_schema_is_fetched(where: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        reference = where.format(port=server.getsockname()[1])
        for document in ({"$ref": reference}, {"properties": {"a": {"$dynamicRef": reference}}}):
            assert str(bad(document)).startswith("a $ref must stay within its schema, nothing is fetched: ")
        with pytest.raises(TimeoutError):
            server.accept()


def test_references_inside_a_schema_are_followed() -> None:
    schema = {
        "$defs": {"node": {"type": "object", "additionalProperties": {"$ref": "#/$defs/node"}}},
        "$ref": "#/$defs/node",
    }

    assert messages(schema, {"a": {"b": {}}}) == []
    assert messages(schema, {"a": {"b": 1}}) == ['a.b: 1 is not of type "object"']


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert messages({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1) == []


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(?=(a+)+$)x", "^((a+)*)*\\1$"])
def test_no_pattern_takes_long(pattern: str) -> None:
    schema = JsonSchema({"pattern": pattern})
    begun = time.process_time()

    assert schema.find_problems("a" * 2000 + "!")
    assert time.process_time() - begun < 2


def test_what_is_told_of_a_value_is_short_and_tame() -> None:
    value = ["\x1b[2J\x9b" + "x" * 10_000] * 1000
    problems = JsonSchema({"items": {"type": "integer"}}).find_problems(value)

    assert len(problems) == MAX_PROBLEMS
    assert all(len(str(problem)) <= 320 and str(problem).isprintable() for problem in problems)
    assert summarise_problems(problems).endswith("; and 17 more")
    keys = messages({"additionalProperties": {"type": "string"}}, {"\x1b[2J" + "k" * 1000: 1})
    assert len(keys) == 1
    assert keys[0].isprintable()
    assert len(keys[0]) < 200


def test_a_value_that_would_be_misread_is_a_problem_whatever_the_schema() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}

    assert messages(True, deep) == ["the value is nested more than 200 levels deep"]
    assert messages(True, {"a": "\ud800"}) == ["the value holds a lone surrogate, which is no text"]
    assert messages({"type": "number"}, math.nan) == ["the value holds a number that is not finite"]
    assert messages({"type": "integer"}, 2**64) == ["the value holds an integer of more than 64 bits"]


def test_a_deep_schema_over_a_deep_value_does_not_end_the_process() -> None:
    script = """
from providers.decisions.schema import JsonSchema
value = 1
for _ in range(199):
    value = {"a": [value]} if _ % 2 else {"a": value}
print(JsonSchema({"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}}).find_problems(value)[:1])
document = True
for _ in range(190):
    document = {"not": document}
print(len(JsonSchema(document).find_problems(1)))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_paths_read_as_they_are_written_in_code() -> None:
    assert render_path(("items", 2, "name")) == "items[2].name"
    assert render_path((0, "a")) == "[0].a"
    assert render_path(()) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, JSON)
def test_any_document_is_a_schema_or_says_why_not(document: Any, value: Any) -> None:
    try:
        problems = JsonSchema(document).find_problems(value)
    except BadSchema as error:
        assert str(error).isprintable()  # noqa: PT017 - either is right
    else:
        assert json.dumps([str(problem) for problem in problems])
