"""What a schema asks of somebody who only answers closed questions, and what his answers come to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.endpoints.questions import Choice, Score, UnreadableAnswer, YesNo, derive_questions, read_answers
from tests.providers.endpoints.systemone import choice, noul, score
from tests.providers.endpoints.wire import hostile_copies

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("number"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "enum", "x-levels", "x-criteria", "properties", "required", "a"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
SCHEMA = {
    "type": "object",
    "required": ["verdict", "urgent", "risk"],
    "properties": {
        "verdict": {
            "enum": ["allow", "deny"],
            "description": "May the call be made?",
            "x-criteria": {"deny": "It destroys something"},
        },
        "urgent": {"type": "boolean"},
        "risk": {"type": "integer", "x-levels": [0, 25, 100], "description": "How risky is it?"},
        "mood": {"type": "number", "x-levels": ["calm", "angry"]},
        "stars": {"enum": [1, 2, 3.5]},
        "reason": {"type": "string"},
    },
}


def one(described: dict[str, Any]) -> Any:
    questions, problems = derive_questions({"type": "object", "properties": {"q": described}})
    return questions[0] if questions else problems


def value(described: dict[str, Any], answer: dict[str, Any]) -> tuple[dict[str, int], float]:
    return read_answers([one(described)], {"q": answer})


# --- asking -----------------------------------------------------------------------------------------------------


def test_each_property_is_asked_by_its_kind_and_free_text_is_left_out() -> None:
    questions, problems = derive_questions(SCHEMA)
    assert problems == []
    assert questions == [
        Choice(
            name="verdict",
            instructions="May the call be made?",
            options={"allow": None, "deny": "It destroys something"},
        ),
        YesNo(name="urgent", instructions="urgent"),
        Score(name="risk", instructions="How risky is it?", levels=(0, 25, 100)),
        Score(name="mood", instructions="mood", levels=("calm", "angry")),
        Score(name="stars", instructions="stars", levels=(1, 2, 3.5)),
    ]
    assert [question.criteria for question in questions[2:]] == [
        ["0", "25", "100"],
        ["calm", "angry"],
        ["1", "2", "3.5"],
    ]


def test_what_yes_and_no_mean_is_asked_along() -> None:
    meanings = {"true": "today", "false": "whenever"}
    assert one({"type": "boolean", "x-criteria": meanings}).criteria == meanings
    assert one({"type": "boolean"}).criteria is None


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"type": "string"}, "neither an enum of strings, nor a boolean, nor a number with levels"),
        ({"type": "number"}, "neither an enum of strings"),
        ({"enum": ["a", None]}, "neither an enum of strings"),
        ({"enum": []}, "neither an enum of strings"),
        ({"enum": [1, 3, 2]}, "not in rising order"),
        ({"enum": [True, False]}, "neither an enum of strings"),
        ({"type": "integer", "x-levels": [1]}, "1 levels, and a scale has from 2 to 10"),
        ({"type": "integer", "x-levels": list(range(11))}, "11 levels"),
        ({"type": "integer", "x-levels": [1, "two"]}, "neither all numbers nor all words"),
        ({"enum": [f"o{number}" for number in range(256)]}, "256 options, at most 255 are allowed"),
        ({"type": ["number", "null"], "x-levels": [1, 2]}, "neither an enum of strings"),
        (True, "neither an enum of strings"),
    ],
)
def test_required_property_that_cannot_be_asked_is_a_problem_and_an_optional_one_is_left_out(
    described: bool | dict[str, Any], why: str
) -> None:
    properties = {"q": described, "ok": {"type": "boolean"}}
    questions, problems = derive_questions({"properties": properties, "required": ["q"]})
    assert len(problems) == 1
    assert problems[0].startswith("q: is required but cannot be asked: ")
    assert why in problems[0]
    assert [question.name for question in questions] == ["ok"]
    assert derive_questions({"properties": properties})[1] == []


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"enum": ["a", "b"]}, "must be an object with properties"),
        ({"type": "array", "properties": {}}, "must be an object with properties"),
        ({"properties": {"text": {"type": "string"}}}, "no property can be asked"),
        (
            {"properties": {"a": {"type": "boolean"}}, "required": ["b"]},
            "b: is required but not defined as a property",
        ),
    ],
)
def test_schema_of_which_nothing_or_too_little_can_be_asked_is_a_problem(schema: dict[str, Any], why: str) -> None:
    assert why in "; ".join(derive_questions(schema)[1])


@given(schema=st.dictionaries(st.sampled_from(["type", "properties", "required"]), JSON))
def test_any_schema_has_questions_or_problems(schema: dict[str, Any]) -> None:
    questions, problems = derive_questions(schema)
    assert questions or problems


# --- answers ----------------------------------------------------------------------------------------------------


def test_answer_holds_a_value_for_each_question_and_the_least_confidence() -> None:
    questions, _ = derive_questions(SCHEMA)
    answers = {
        "verdict": choice("deny", 0.81, allow=0.12, deny=0.88),
        "urgent": noul(0.35),
        "risk": score(1.2, 0.7, 0.1, 0.6, 0.3),
        "mood": score(0.9, 0.99),
        "stars": score(1.5, 0.9),
        "unasked": {},
    }
    values, confidence = read_answers(questions, answers)
    assert values == {"verdict": "deny", "urgent": False, "risk": 25, "mood": 1, "stars": 3.5}
    assert confidence == 0.65


@pytest.mark.parametrize(
    ("yes", "answer", "confidence"), [(0, False, 1), (0.5, True, 0.5), (0.75, True, 0.75), (1, True, 1)]
)
def test_yes_needs_half_of_the_probability(yes: float, answer: bool, confidence: float) -> None:
    assert value({"type": "boolean"}, noul(yes)) == ({"q": answer}, confidence)


@pytest.mark.parametrize(("place", "level"), [(0, 10), (0.49, 10), (0.5, 20), (1.5, 30), (2, 30)])
def test_score_is_the_nearest_level(place: float, level: int) -> None:
    assert value({"type": "number", "x-levels": [10, 20, 30]}, score(place, 1)) == ({"q": level}, 1)


OPTION, YES, LEVEL = {"enum": ["a", "b"]}, {"type": "boolean"}, {"type": "number", "x-levels": [1, 2]}


@pytest.mark.parametrize(
    ("described", "answer", "why"),
    [
        (OPTION, choice("c", 1), "'c' is not one of the options"),
        (OPTION, choice(["a"], 1), "not one of the options"),
        (OPTION, choice("a", 1.01), "confidence 1.01 is not a number from 0 to 1"),
        (OPTION, choice("a", True), "confidence true"),
        (OPTION, {"type": "choice", "choice": "a"}, "confidence null"),
        (OPTION, choice("a", 1, a=1.5), "a probability 1.5"),
        (OPTION, choice("a", 1) | {"probabilities": [0.5]}, "a probability an array"),
        (OPTION, noul(1), "a choice was asked for, not 'noul'"),
        (YES, noul(-0.1), "noul -0.1"),
        (YES, {}, "noul null"),
        (YES, noul("0.5"), "noul '0.5'"),
        (LEVEL, score(1.1, 1), "score 1.1 is not a number from 0 to 1"),
        (LEVEL, score(-1, 1), "score -1"),
        (LEVEL, score(True, 1), "score true"),
        (LEVEL, score(0, None), "confidence null"),
        (YES, None, "'q' is not answered"),
        (YES, 0.5, "'q' is not answered"),
    ],
)
def test_answer_that_is_none_to_its_question_is_told_by_its_question(
    described: dict[str, Any], answer: dict[str, Any], why: str
) -> None:
    with pytest.raises(UnreadableAnswer) as unreadable:
        value(described, answer)
    assert why in str(unreadable.value)
    assert "'q'" in str(unreadable.value)


def test_hostile_answers_are_read_or_refused_and_never_more() -> None:
    questions, _ = derive_questions(SCHEMA)
    good = {
        "verdict": choice("deny", 0.8, deny=1),
        "urgent": noul(1),
        "risk": score(1, 0.7, 1),
        "mood": score(0, 1),
        "stars": score(2, 0.9),
    }
    seen = 0
    for answers in hostile_copies(good):
        seen += 1
        try:
            values, confidence = read_answers(questions, answers)
        except UnreadableAnswer:
            continue
        assert 0 <= confidence <= 1
        assert list(values) == ["verdict", "urgent", "risk", "mood", "stars"]
    assert seen > 100


@given(answers=JSON)
def test_any_answers_are_read_or_refused(answers: Any) -> None:
    try:
        read_answers([one(OPTION)], answers)
    except UnreadableAnswer:
        return
    assert answers["q"]["choice"] in {"a", "b"}
