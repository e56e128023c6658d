"""Conformance of the evaluator with what rules and assertions rely on: it is 0.1.x, so a new version must prove it."""

import math
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.decisions.cel import (
    ASSERTION_VARIABLES,
    MAX_EXPRESSION_BYTES,
    MAX_VALUE_DEPTH,
    RULE_VARIABLES,
    CelCompileError,
    CelEvaluationError,
    VariableType,
    compile_expression,
    find_value_problem,
)

STEP = {"node": "judge", "source": "model", "ms": None, "confidence": 0.7, "usage": {"input": 12}}
ENDED = {
    "status": "ok",
    "decision": {
        "verdict": "deny",
        "n": 3,
        "x": 2.5,
        "yes": True,
        "word": "yes",
        "none": None,
        "text": "añ😀",
        "list": [1, 2, 3],
        "mixed": [1, "a"],
        "empty": {},
        "with-dash": 1,
    },
    "abstain": None,
    "error": None,
    "trace": [STEP, {**STEP, "node": "gate", "source": "exec"}],
}


def evaluated(
    text: str, values: dict[str, Any] = ENDED, variables: Mapping[str, VariableType] = ASSERTION_VARIABLES
) -> bool:
    return compile_expression(text, variables).evaluate(values)


def unevaluable(
    text: str, values: dict[str, Any] = ENDED, variables: Mapping[str, VariableType] = ASSERTION_VARIABLES
) -> str:
    expression = compile_expression(text, variables)
    with pytest.raises(CelEvaluationError) as raised:
        expression.evaluate(values)
    return raised.value.reason


def uncompilable(text: str, variables: Mapping[str, VariableType] = ASSERTION_VARIABLES) -> CelCompileError:
    with pytest.raises(CelCompileError) as raised:
        compile_expression(text, variables)
    return raised.value


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "text",
    [
        "status == 'ok'",
        "status != 'error'",
        "status in ['ok', 'abstain']",
        "status == 'abstain' || decision.verdict != 'allow'",
        "decision.verdict == 'deny' && decision.n == 3",
        # numbers of JSON are compared across types
        "decision.n == 3.0",
        "decision.n >= 2.5",
        "decision.x > 2",
        "decision.list == [1.0, 2.0, 3.0]",
        # null, absence, presence
        "abstain == null",
        "decision.none == null",
        "has(decision.verdict)",
        "!has(decision.nope)",
        "has(decision.none)",
        "!('nope' in decision)",
        "decision.?nope.orValue('x') == 'x'",
        "decision.?none.orValue('x') == null",
        "decision.?verdict.hasValue()",
        "decision['with-dash'] == 1",
        # text counts characters
        "size(decision.text) == 3",
        "decision.text.startsWith('añ')",
        "decision.text.endsWith('😀')",
        "'deny-all'.contains(decision.verdict)",
        "decision.verdict.matches('^(deny|ask)$')",
        "'a,b'.split(',').size() == 2",
        "['a', 'b'].join('-') == 'a-b'",
        "'Abc'.lowerAscii() == 'abc'",
        "'%s is %d'.format(['n', 3]) == 'n is 3'",
        "'abc'.substring(1) == 'bc'",
        "'a\\nb'.size() == 3",
        r"r'\d' == '\\d'",
        # mathematics
        "math.greatest(1, 2, 3) == 3",
        "math.abs(-2.5) == 2.5",
        "7 / 2 == 3 && 7 % 2 == 1",
        "double(7) / 2.0 == 3.5",
        "int('12') == 12",
        # lists and maps
        "trace.exists(step, step.source == 'exec')",
        "trace.exists_one(step, step.node == 'judge')",
        "trace.all(step, step.ms == null)",
        "trace.filter(step, step.source == 'model').size() == 1",
        "trace.map(step, step.node) == ['judge', 'gate']",
        "trace[0].usage.input == 12",
        "size(trace) == 2",
        "decision.empty == {}",
        "decision.empty.all(key, false)",
        "decision.list.exists(one, one == 2)",
        # an error on one side does not matter where the other decides
        "decision.nope == 1 || true",
        "!(decision.nope == 1 && false)",
        "decision.mixed.exists(one, one > 0)",
        "true ? true : decision.nope",
        "type(decision.n) == int && type(decision.x) == double",
        "cel.bind(verdict, decision.verdict, verdict == 'deny' || verdict == 'ask')",
        "base64.encode(b'abc') == 'YWJj'",
    ],
)
def test_an_expression_that_holds_is_true(text: str) -> None:
    assert evaluated(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "status == 'error'",
        "decision.verdict == 'allow'",
        "decision.n == '3'",
        "decision.yes == 'true'",
        "decision.none == false",
        "has(decision.nope)",
        "trace.exists(step, step.source == 'http')",
        "trace.all(step, step.source == 'model')",
        "decision.list == [3, 2, 1]",
    ],
)
def test_an_expression_that_does_not_hold_is_false(text: str) -> None:
    assert evaluated(text) is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("decision.nope == 1", 'Key not found in map : "nope"'),
        ("decision.none.nope == 1", "Applying SELECT to non-message type"),
        ("has(abstain.nope)", "Applying SELECT to non-message type"),
        ("decision.list[7] == 1", "Index error: index=7 size=3"),
        ("decision.n + 'a' == 'b'", "No matching overloads found : _+_(int64, string)"),
        ("decision.mixed.all(one, one > 0)", "No matching overloads found : _>_(string, int64)"),
        ("decision.word && true", "No matching overloads found : _&&_"),
        ("decision.word ? true : false", "No matching overloads found : <jump_condition>"),
        ("1 / (decision.n - 3) == 1", "divide by zero"),
        ("9223372036854775807 + decision.n > 0", "integer overflow"),
        ("int(decision.word) == 1", "cannot convert string to int"),
        ("decision.verdict.matches(decision.word + '(')", "invalid regular expression: missing ): yes("),
    ],
)
def test_an_error_is_neither_true_nor_false(text: str, reason: str) -> None:
    assert unevaluable(text) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("decision.word", 'expected true or false, got of type string: "yes"'),
        ("decision.n", "expected true or false, got of type int: 3"),
        ("decision.none", "expected true or false, got nothing (null)"),
        ("decision.list", "expected true or false, got of type list"),
        ("decision.empty", "expected true or false, got of type map"),
        ("dyn([decision.?none])", "expected true or false, got of type list"),
        ("dyn({'a': [decision.?none]})", "expected true or false, got of type map"),
        ("dyn(decision.?none)", "expected true or false, got an optional value; orValue(...) takes it out"),
        ("dyn(b'x')", "expected true or false, got of type bytes"),
        ("dyn(timestamp(0))", "expected true or false, got of type timestamp"),
    ],
)
def test_a_value_of_another_type_is_neither_true_nor_false(text: str, reason: str) -> None:
    assert unevaluable(text) == reason


def test_what_a_model_wrote_is_shown_short_and_tame() -> None:
    said = {**ENDED, "decision": "\x1b[2J" + "x" * 10_000}

    reason = unevaluable("decision", said)

    assert reason.startswith('expected true or false, got of type string: "\\u001b[2Jxxx')
    assert len(reason) < 200
    assert unevaluable("decision['\\x1b']", {**ENDED, "decision": {}}) == 'Key not found in map : "\\x1b"'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (nested(MAX_VALUE_DEPTH + 1), "decision is nested more than 200 levels deep"),
        ({"a": 2**63}, "decision holds an integer of more than 64 bits"),
        ([-(2**63) - 1], "decision holds an integer of more than 64 bits"),
        (["\ud800"], "decision holds a lone surrogate, which is no text"),
        ({"\udfff": 1}, "decision holds a lone surrogate, which is no text"),
        (math.nan, "decision holds a number that is not finite"),
        ([math.inf], "decision holds a number that is not finite"),
        ((1,), "decision holds a value that is not JSON (tuple)"),
        ({1: 2}, "decision has a key that is not a string"),
        (b"x", "decision holds a value that is not JSON (bytes)"),
        ({"verdict\0x": "allow"}, "decision holds a NUL character"),
        ("allow\0", "decision holds a NUL character"),
    ],
)
def test_a_value_that_would_be_misread_is_refused_even_where_it_does_not_matter(value: Any, reason: str) -> None:
    assert unevaluable("true || decision == 1", {**ENDED, "decision": value}) == reason


def test_values_up_to_the_bounds_are_taken() -> None:
    assert evaluated("size(decision) == 1", {**ENDED, "decision": nested(MAX_VALUE_DEPTH)})
    assert evaluated("decision == 9223372036854775807", {**ENDED, "decision": 2**63 - 1})
    assert evaluated("decision < -9223372036854775807", {**ENDED, "decision": -(2**63)})


def test_a_variable_without_a_value_is_no_null() -> None:
    assert unevaluable("status == 'ok'", {"status": "ok"}) == "decision has no value"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("decison.verdict == 'x'", 1, 8, "undeclared reference to 'decison.verdict' (did you mean 'decision'? There"),
        ("status == 'ok' &&\n  stat == 'x'", 2, 3, "undeclared reference to 'stat' (did you mean 'status'? There are"),
        (
            "input.x == 1",
            1,
            6,
            "undeclared reference to 'input.x' (there are: status, decision, abstain, error, trace)",
        ),
        ("status == 3", 1, 8, "found no matching overload for '_==_' applied to '(string, int)'"),
        ("'a' + 1 == 'a1'", 1, 5, "found no matching overload for '_+_' applied to '(string, int)'"),
        ("status.verdict == 'x'", 1, 7, "expression of type 'string' cannot be the operand of a select operation"),
        ("(status == 'ok'", 1, 16, "Syntax error: missing ')' at '<EOF>'"),
        ("status = 'ok'", 1, 8, "Syntax error: token recognition error at: '= '"),
        ("", 1, 1, "Syntax error: mismatched input '<EOF>' expecting"),
        ("trace.every(step, true)", 1, 12, "undeclared reference to 'every'"),
        ("status", 1, 1, "expected a boolean expression, this one is of type string"),
        ("1 + 1", 1, 1, "expected a boolean expression, this one is of type int"),
        ("null", 1, 1, "expected a boolean expression, this one is nothing (null)"),
        ("decision.?verdict", 1, 1, "expected a boolean expression, this one is of type optional_type"),
        ("status == '\ud800'", 1, 12, "an expression cannot contain a lone surrogate"),
        ("status ==\n'\ud800'", 2, 2, "an expression cannot contain a lone surrogate"),
        ("true\0 && false", 1, 5, "an expression cannot contain a NUL character"),
    ],
)
def test_a_mistake_is_found_before_anything_runs_and_has_a_place(
    text: str, line: int, column: int, message: str
) -> None:
    found = uncompilable(text)

    assert found.message.startswith(message)
    assert (found.line, found.column) == (line, column)


def test_a_caret_points_at_the_mistake() -> None:
    assert str(uncompilable("status == 'ok' &&\n  stat == 'x'")).splitlines()[1:] == ["    stat == 'x'", "    ^"]


def test_a_caret_points_at_the_mistake_of_a_long_line_with_control_characters() -> None:
    text = "'" + "\x1b" * 50 + "x" * 500 + "' == status && $ && " + "true && " * 100 + "true"

    shown, caret = str(uncompilable(text)).splitlines()[1:]

    assert shown[len(caret) - 1] == "$"
    assert len(shown) < 300
    assert shown.isprintable()


def test_a_rule_sees_the_input_and_the_answers_and_nothing_else() -> None:
    values = {"input": {"tool_name": "Bash"}, "answers": {"triage": {"queue": "a"}}}

    assert evaluated("input.tool_name == 'Bash' && answers.triage.queue == 'a'", values, RULE_VARIABLES)
    assert "undeclared reference to 'status'" in uncompilable("status == 'ok'", RULE_VARIABLES).message


def test_an_expression_names_the_variables_that_it_cannot_do_without() -> None:
    named = [
        compile_expression(text, ASSERTION_VARIABLES).list_required_variables()
        for text in ("true", "trace.all(error, error.ms == null)")
    ]

    assert named == [(), ("trace",)]
    assert compile_expression(
        "decision.n == 1 || 'error' == status", ASSERTION_VARIABLES
    ).list_required_variables() == ("status", "decision")


def test_an_expression_is_no_longer_than_4_kib() -> None:
    fits = "true" + " " * (MAX_EXPRESSION_BYTES - 4)

    assert evaluated(fits)
    assert uncompilable(fits + " ").message == "an expression has at most 4096 bytes, this one has 4097"
    assert "has 4108" in uncompilable("'" + "😀" * 1025 + "' == ''").message


BOMBS = {
    "parentheses": "'(' * 300 + 'true' + ')' * 300",
    "a long sum": "'+'.join(['1'] * 2000) + ' > 0'",
    "not not": "'!' * 4000 + 'true'",
    "nested conditions": "'true ? ' * 300 + 'true' + ' : false' * 300",
    "a long path": "'has(decision' + '.a' * 2000 + ')'",
    "nested lists": "'[' * 300 + ']' * 300 + ' == []'",
    "a long disjunction": "'||'.join(['decision.n == 4'] * 250)",
    "nested macros": "'trace.all(a, trace.all(b, trace.all(c, trace.all(d, true))))'",
    "a regular expression that backtracks": "repr('a' * 60 + '!') + '.matches(\"^(a+)+$\")'",
    "a regular expression that grows": '\'"a".matches("((a{1000}){1000}){1000}")\'',
    "a wide number": '\'"%.1000000000f".format([1.0]) != ""\'',
    "growing texts": "'\"a\"' + ('.replace(\"a\", \"' + 'a' * 200 + '\")') * 5 + '.size() == 0'",
    "doubling lists": "'[status]' + '.map(x, x + x)' * 20 + '[0].size() == 0'",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_ends_soon_and_never_as_true(bomb: str) -> None:
    """Each in a process of its own, which may not survive it: but nothing is passed, and nothing waits."""
    script = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        from providers.decisions.cel import ASSERTION_VARIABLES, CelCompileError, CelEvaluationError, compile_expression
        values = {{"status": "ok", "decision": {{"n": 3}}, "abstain": None, "error": None, "trace": [1] * 200}}
        try:
            print(compile_expression({BOMBS[bomb]}, ASSERTION_VARIABLES).evaluate(values))
        except (CelCompileError, CelEvaluationError) as error:
            print(type(error).__name__, str(error).splitlines()[0])
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )

    if bomb == "not not":  # which is as true as it looks
        assert ended.stdout == "True\n"
        return
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(("False", "CelCompileError ", "CelEvaluationError "))


def test_too_many_iterations_are_said_to_be_too_many() -> None:
    long = {**ENDED, "trace": [STEP] * 12_000}

    assert unevaluable("trace.all(step, step.source == 'model')", long) == "Iteration budget exceeded"
    assert evaluated("trace.exists(step, step.source == 'model')", long)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), inner, max_size=4
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_every_json_value_is_fit_and_equals_itself(value: Any) -> None:
    assert find_value_problem(value) is None
    assert evaluated("decision == abstain", {**ENDED, "decision": value, "abstain": value})


@given(JSON)
def test_only_the_boolean_true_is_true(value: Any) -> None:
    said = {**ENDED, "decision": value}
    if isinstance(value, bool):
        assert evaluated("decision", said) is value
    else:
        assert unevaluable("decision", said).startswith("expected true or false, got ")


@given(st.text(max_size=60))
def test_any_text_compiles_or_says_why_not(text: str) -> None:
    try:
        said = str(compile_expression(text, ASSERTION_VARIABLES))
    except CelCompileError as error:
        said = str(error)
    assert all(char.isprintable() for char in said.replace("\n", ""))
