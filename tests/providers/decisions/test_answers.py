import json
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from providers.base import Answer
from providers.decisions.answers import (
    MAX_ANSWER_CHARS,
    Abstention,
    BadAnswer,
    NodeAnswer,
    read_model_answer,
    read_specialist_answer,
)
from providers.decisions.schema import JsonSchema

VERDICT = JsonSchema(
    {"type": "object", "properties": {"verdict": {"enum": ["allow", "deny"]}}, "required": ["verdict"]}
)
DENY = NodeAnswer({"verdict": "deny"}, 0.9)
TEXT = '{"answer": {"verdict": "deny"}, "confidence": 0.9}'
TRAILING_COMMA = '{"answer": {"verdict": "deny"},}'


def of(text: str, **more: Any) -> Abstention | NodeAnswer:
    return read_model_answer(Answer(text=text, **more), VERDICT)


def bad(text: str, **more: Any) -> str:
    with pytest.raises(BadAnswer) as raised:
        of(text, **more)
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 700
    return raised.value.message


def bad_of_specialist(text: str) -> str:
    with pytest.raises(BadAnswer) as raised:
        read_specialist_answer(text, "confidence")
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 400
    return raised.value.message


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"\n\n  {TEXT}\n",
        f"Sure! Here it is:\n```json\n{TEXT}\n```\nAnything else?",
        f"```\n{TEXT}\n```",
        f"```JSON \r\n{TEXT}\r\n```",
        f"The answer is {TEXT}, I think.",
        f"In {{braces}} and {{ }} first: {TEXT} {{",
        f"{TEXT} {TEXT}",
        f'<think>maybe {{"answer": {{"verdict": "allow"}}}}</think>\n{TEXT}',
        f'{{"answer" : {{"verdict":"deny"}},"confidence":9e-1,"reason":"because"}}',  # noqa: F541
    ],
)
def test_an_answer_is_found_in_what_models_put_around_it(text: str) -> None:
    assert of(text) == DENY


@pytest.mark.parametrize(
    ("confidence", "number"), [("0", 0.0), ("1", 1.0), ("0.5", 0.5), ("1.0", 1.0), ("1e-3", 0.001), ("null", None)]
)
def test_a_confidence_is_a_number_between_0_and_1_or_nothing(confidence: str, number: float | None) -> None:
    said = of(f'{{"answer": {{"verdict": "deny"}}, "confidence": {confidence}}}')

    assert said == NodeAnswer({"verdict": "deny"}, number)


def test_an_answer_without_a_confidence_says_nothing_of_it() -> None:
    assert of('{"answer": {"verdict": "deny"}}') == NodeAnswer({"verdict": "deny"}, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"answer": null}', "the model abstained"),
        ('{"answer": null, "confidence": "what"}', "the model abstained"),
        ('{"answer": null, "reason": "too\\u001b[2J vague"}', "too\\u001b[2J vague"),
        ('{"answer": null, "reason": 7}', "the model abstained"),
    ],
)
def test_an_answer_of_null_abstains(text: str, reason: str) -> None:
    assert of(text) == Abstention(reason)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        ("I cannot say.", 'there is no JSON object in the answer: "I cannot say."'),
        ('"deny"', 'there is no JSON object in the answer: "\\"deny\\""'),
        ("Use {} here.", 'there is no JSON object in the answer: "Use {} here."'),
        ("{}", "the answer has no field 'answer': {}"),
        ("```json\n{ }\n```", "the answer has no field 'answer': {}"),
        ('{"verdict": "deny"}', 'the answer has no field \'answer\': {"verdict": "deny"}'),
        ('{"answer": "deny"}', 'the answer violates its schema: "deny" is not of type "object"'),
        ('{"answer": {"verdict": "maybe"}}', 'violates its schema: verdict: "maybe" is not one of "allow" or "deny"'),
        ('{"answer": {"verdict": "deny"}, "confidence": true}', "'confidence' must be a number from 0 to 1, got true"),
        (
            '{"answer": {"verdict": "deny"}, "confidence": "0.9"}',
            "'confidence' must be a number from 0 to 1, got \"0.9\"",
        ),
        ('{"answer": {"verdict": "deny"}, "confidence": 95}', "'confidence' must be a number from 0 to 1, got 95"),
        ('{"answer": {"verdict": "deny"}, "confidence": -0.1}', "'confidence' must be a number from 0 to 1, got -0.1"),
        ('{"answer": {"verdict": "deny"}, "confidence": NaN}', "NaN is no JSON"),
        ('{"answer": {"verdict": "deny"}, "confidence": Infinity}', "Infinity is no JSON"),
        ('{"answer": {"verdict": "deny"}, "confidence": 1e999}', "a number is too large"),
        ('{"answer": {"verdict": "allow"}, "answer": {"verdict": "deny"}}', "the field 'answer' appears twice"),
        ('{"answer": {"verdict": "allow", "verdict": "deny"}}', "the field 'verdict' appears twice"),
        ("{'answer': 1}", "there is no JSON object in the answer"),
        # where a trailing comma is reported differs between versions of Python: at the comma, or behind it
        (TRAILING_COMMA, "the answer is not JSON (line 1, column 3"),
        (
            '{"answer": {"verdict": "deny\n"}}',
            "the answer is not JSON (line 1, column 29: Invalid control character",
        ),
        ('{"answer": {"verdict": "\\ud800"}}', "the answer holds a lone surrogate, which is no text"),
        ('{"answer": {"verdict": "deny\\u0000"}}', "the answer holds a NUL character"),
        ('{"answer": {"verdict": "deny", "n": 99999999999999999999}}', "the answer holds an integer of more than 64 b"),
        ("<think>" + TEXT, "the answer ends before its thoughts do"),
        ("```json\n{broken}\n```\n" + TEXT, "there is no JSON object in the answer"),
    ],
)
def test_what_is_not_of_the_form_says_why(text: str, message: str) -> None:
    assert message in bad(text)


def test_what_is_inside_a_broken_object_is_not_taken_for_the_answer() -> None:
    broken = '{"thoughts": {"answer": {"verdict": "allow"}, "confidence": 1}, "answer": {"verd'

    assert "the answer is not JSON" in bad(broken)
    assert bad(broken, finish="length").startswith("the answer was cut off at its limit of output tokens: ")


def test_a_whole_answer_counts_even_at_the_limit() -> None:
    assert of(TEXT, finish="length") == DENY


def test_a_refusal_is_no_answer() -> None:
    assert bad(TEXT, refusal="I \x1b[31mwill not") == "the model refused: I \\u001b[31mwill not"


def nested(levels: int) -> str:
    return '{"answer": ' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"answer": {"verdict": "' + "x" * MAX_ANSWER_CHARS + '"}}', "the answer is longer than 1 MiB"),
        (nested(10_000), "the answer is nested too deeply"),
        (nested(300), "the answer is nested more than 200 levels deep"),
        ('{"answer": ' + "[" * 100_000, "the answer is nested too deeply"),
        ("{" * 1_000_000, "there is no JSON object"),
        ('{"a' * 300_000, "the answer is not JSON"),
        ("{ " * 500_000, "there is no JSON object"),
        ("```\n" + "``" * 400_000, "there is no JSON object"),
        ('{"answer": {"verdict": "deny"}, "confidence": 0.' + "9" * 2_000_000 + "}", "longer than 1 MiB"),
        ('{"answer": {"verdict": "deny"}, "confidence": ' + "9" * 900_000 + "}", "the answer is not JSON"),
        ('{"answer": {' + ",".join(f'"k{n}": 1' for n in range(50_000)) + "}}", '"verdict" is a required property'),
        ('{"answer": {"' + '": 1, "'.join(["k"] * 100_000) + '": 1}}', "the field 'k' appears twice"),
    ],
)
def test_hostile_answers_are_refused_soon(text: str, message: str) -> None:
    assert message in bad(text)


def test_a_confidence_of_very_many_digits_is_read_as_the_number_it_is() -> None:
    said = of('{"answer": {"verdict": "deny"}, "confidence": 0.' + "9" * 900_000 + "}")

    assert said == NodeAnswer({"verdict": "deny"}, 1.0)


@given(st.text())
@example('{"answer"')
@example("```")
@example("<think></think>")
def test_any_text_is_an_answer_or_says_why_not(text: str) -> None:
    try:
        of(text)
    except BadAnswer as error:
        assert error.message.isprintable()  # noqa: PT017 - either is right


ANSWERED = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.integers(0, 9) | st.booleans()
)


@given(ANSWERED, st.none() | st.floats(0, 1), st.text(st.characters(exclude_characters="{`<")))
def test_every_answer_of_the_form_is_read_whatever_is_around_it(
    given: dict[str, int], confidence: float | None, around: str
) -> None:
    answer = {**given, "verdict": "allow"}
    text = json.dumps({"answer": answer, "confidence": confidence})

    assert of(f"{around}{text}{around}") == NodeAnswer(answer, confidence)


# --- specialists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"verdict": "deny", "confidence": 0.5}\n', NodeAnswer({"verdict": "deny", "confidence": 0.5}, 0.5)),
        ('{"verdict": "deny"}', NodeAnswer({"verdict": "deny"}, None)),
        ('{"verdict": "deny", "confidence": null}', NodeAnswer({"verdict": "deny", "confidence": None}, None)),
        ('"billing"', NodeAnswer("billing")),
        ("[1, 2]", NodeAnswer([1, 2])),
        ("false", NodeAnswer(False)),
        ("0.25", NodeAnswer(0.25)),
        ('{"abstain": true, "verdict": "deny"}', NodeAnswer({"abstain": True, "verdict": "deny"})),
        ("null", Abstention("the specialist answered null")),
        ('{"abstain": "not my field"}', Abstention("not my field")),
        ('{"abstain": ""}', Abstention("the specialist abstained")),
    ],
)
def test_the_whole_answer_of_a_specialist_is_the_decision(text: str, said: Abstention | NodeAnswer) -> None:
    assert read_specialist_answer(text, "confidence") == said


def test_the_field_that_says_how_sure_a_specialist_is_has_any_name() -> None:
    assert read_specialist_answer('{"score": 0.25, "confidence": "high"}', "score") == NodeAnswer(
        {"score": 0.25, "confidence": "high"}, 0.25
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the answer is not JSON (line 1, column 1"),
        ("Traceback (most recent call last)", "the answer is not JSON"),
        ('{"verdict": "deny"} {"verdict": "allow"}', "the answer is not JSON (line 1, column 21: Extra data)"),
        ('{"verdict": "deny", "verdict": "allow"}', "the field 'verdict' appears twice"),
        ('{"confidence": true}', "'confidence' must be a number from 0 to 1, got true"),
        ('{"confidence": 1.01}', "'confidence' must be a number from 0 to 1, got 1.01"),
        ('{"confidence": "' + "\\u001b" * 100_000 + '"}', "'confidence' must be a number from 0 to 1, got"),
        ("\x1b[2J\x00", "the answer is not JSON"),
        (nested(10_000), "the answer is nested too deeply"),
        (nested(201), "the answer is nested more than 200 levels deep"),
        ("NaN", "NaN is no JSON"),
        ("1" * 5000, "the answer is not JSON"),
        ("x" * (MAX_ANSWER_CHARS + 1), "the answer is longer than 1 MiB"),
    ],
)
def test_rubbish_of_a_specialist_is_told_as_such(text: str, message: str) -> None:
    assert message in bad_of_specialist(text)


def test_an_answer_of_just_the_longest_length_is_read() -> None:
    assert read_specialist_answer(" " * (MAX_ANSWER_CHARS - 1) + "1", "confidence") == NodeAnswer(1)


def test_a_long_reason_is_cut() -> None:
    [reason] = attrs.astuple(read_specialist_answer(json.dumps({"abstain": "x" * 5000}), "confidence"))

    assert reason == "x" * 199 + "…"
