"""Where a transcript is cut, what stands for what was cut off, and what is shortened: the pure parts."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.agent.checkpoint import MAX_ENTRY_CHARS, MAX_LIST_ENTRIES, build_summary, read_checkpoint
from providers.agent.compaction import ITEM_TRUNCATION_MARK, MAX_ITEM_CHARS, render_messages
from providers.agent.shortening import SHORTENED_MARK, shorten_messages
from providers.agent.transcript import Transcript, choose_cut, count_chars, find_boundaries
from providers.base import AssistantTurn, Message, ToolAnswer, ToolCall, UserText
from providers.usage import Usage


def turn(*ids: str, text: str = "", chars: int = 0) -> AssistantTurn:
    calls = tuple(ToolCall(id=one, name="bash", arguments={}, raw="x" * chars) for one in ids)
    return AssistantTurn(text=text, calls=calls)


def told(call_id: str, text: str = "ok") -> ToolAnswer:
    return ToolAnswer(call_id=call_id, name="bash", text=text)


def asked(text: str = "do it", **more: Any) -> UserText:
    return UserText(text=text, **more)


def rounds(count: int) -> list[AssistantTurn | ToolAnswer | UserText]:
    """A task and *count* turns of one call each."""
    messages: list[Message] = [asked()]
    for number in range(count):
        messages += [turn(f"c{number}"), told(f"c{number}")]
    return messages


@st.composite
def transcripts(draw: Callable[..., Any]) -> list[AssistantTurn | ToolAnswer | UserText]:
    """Messages as the loop makes them: every call is answered before anything else is said."""
    messages: list[Message] = [asked(draw(st.text(max_size=9)), summary=draw(st.booleans()))]
    sizes = st.integers(min_value=0, max_value=40_000)
    for number in range(draw(st.integers(min_value=0, max_value=12))):
        what = draw(st.sampled_from(["user", "turn", "turn", "turn"]))
        if what == "user":
            messages.append(asked("u" * draw(sizes)))
            continue
        ids = [f"{number}-{index}" for index in range(draw(st.integers(min_value=0, max_value=3)))]
        messages.append(turn(*ids, text="a" * draw(sizes), chars=draw(st.integers(0, 50))))
        messages += [told(one, "t" * draw(sizes)) for one in draw(st.permutations(ids))]
    return messages


def is_valid(messages: list[AssistantTurn | ToolAnswer | UserText]) -> bool:
    """Every call is answered, once and later, and every answer has its call."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolAnswer):
            if message.call_id not in waiting:
                return False
            waiting.remove(message.call_id)
        elif waiting:
            return False
        elif isinstance(message, AssistantTurn):
            waiting = [call.id for call in message.calls]
    return not waiting


# --- where it is cut ----------------------------------------------------------------------------------------------


@given(transcripts(), st.integers(min_value=0, max_value=20))
def test_transcript_is_valid_after_a_cut_and_so_is_what_was_cut_off(
    messages: list[AssistantTurn | ToolAnswer | UserText], keep: int
) -> None:
    at = choose_cut(messages, keep)

    if at is None:
        return
    assert at >= 2
    assert is_valid(messages[:at])
    assert is_valid([build_summary("s", at), *messages[at:]])
    assert not messages[at:] or not isinstance(messages[at], ToolAnswer)


@given(transcripts())
def test_every_place_to_cut_leaves_two_valid_parts(messages: list[AssistantTurn | ToolAnswer | UserText]) -> None:
    places = list(find_boundaries(messages))

    assert places[0] == 0
    assert places[-1] == len(messages)
    assert all(is_valid(messages[:at]) and is_valid(messages[at:]) for at in places)


@given(transcripts())
def test_nothing_stays_where_no_turn_is_to_be_kept(messages: list[AssistantTurn | ToolAnswer | UserText]) -> None:
    assert choose_cut(messages, 0) in ({len(messages)} if len(messages) >= 2 else {None})


def test_last_turns_of_the_user_stay_whole() -> None:
    messages: list[Message] = [*rounds(2), asked("second"), *rounds(1)[1:], asked("third"), turn(text="x")]

    assert messages[choose_cut(messages, 1)] == asked("third")
    assert messages[choose_cut(messages, 2)] == asked("second")


def test_where_there_are_fewer_turns_than_asked_for_the_last_one_stays() -> None:
    messages: list[Message] = [asked("first"), turn(text="x"), asked("second"), turn(text="y")]

    assert messages[choose_cut(messages, 5)] == asked("second")


@pytest.mark.parametrize(("turns", "at"), [(0, None), (1, None), (2, None), (3, 3), (4, 5)])
def test_within_one_long_turn_the_cut_leaves_the_last_four_messages(turns: int, at: int | None) -> None:
    assert choose_cut(rounds(turns), 2) == at


def test_a_summary_is_no_turn_of_the_user() -> None:
    messages: list[Message] = [asked("[Checkpoint]", summary=True), *rounds(3)[1:]]

    assert choose_cut(messages, 1) == 3


# --- what stands for it -------------------------------------------------------------------------------------------

WHOLE = {
    "goal": "fix add",
    "instructions": ["only calc.py"],
    "discoveries": ["it subtracts"],
    "accomplished": [],
    "currentState": "read",
    "nextSteps": ["edit"],
    "relevantFiles": ["calc.py"],
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"checkpoint": WHOLE}),
        json.dumps(WHOLE),
        f"Here it is:\n```json\n{json.dumps({'checkpoint': WHOLE}, indent=1)}\n```\nDone.",
        f"Sure! {json.dumps({'checkpoint': WHOLE})} I hope that helps.",
    ],
)
def test_checkpoint_is_found_in_whatever_it_is_wrapped(text: str) -> None:
    checkpoint = read_checkpoint(text)

    assert checkpoint is not None
    assert checkpoint.render_text() == (
        "## Goal\nfix add\n\n## User instructions and constraints\n- only calc.py\n\n## Discoveries\n- it subtracts\n\n"
        "## Current state\nread\n\n## Next steps\n- edit\n\n## Relevant files\n- calc.py"
    )


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[1]", '{"checkpoint": 3}', '{"checkpoint": {"goal": " "}}', '{"goal": 3}', "{" * 100_000]
)
def test_what_holds_no_goal_is_no_checkpoint(text: str) -> None:
    assert read_checkpoint(text) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["checkpoint", *WHOLE]), inner),
        max_leaves=20,
    )
)
def test_any_json_is_read_or_not_and_bounded(document: Any) -> None:
    checkpoint = read_checkpoint(json.dumps(document))

    if checkpoint is not None:
        assert 0 < len(checkpoint.goal) <= MAX_ENTRY_CHARS
        assert all(0 < len(entries) <= MAX_LIST_ENTRIES for entries in checkpoint.sections.values())


def test_long_entries_and_lists_are_cut() -> None:
    checkpoint = read_checkpoint(json.dumps({"goal": "g" * 9000, "discoveries": [*range(9), *["d" * 9000] * 100]}))

    assert checkpoint is not None
    assert len(checkpoint.goal) == MAX_ENTRY_CHARS
    assert checkpoint.sections == {"discoveries": ("d" * MAX_ENTRY_CHARS,) * MAX_LIST_ENTRIES}


def test_stand_in_says_how_much_it_stands_for() -> None:
    message = build_summary("text", 7)

    assert message.summary
    assert message.text == "[Checkpoint of 7 earlier messages, generated by context compaction]\n\ntext"


def test_record_names_who_said_what_and_cuts_each() -> None:
    text = render_messages(
        [
            asked("old", summary=True),
            asked("task"),
            turn("c", text="I run it", chars=2),
            told("c", "x" * 9000),
            ToolAnswer(call_id="d", name="bash", text="no", is_error=True),
        ]
    )

    parts = text.split("\n\n")
    assert parts[:4] == ["PREVIOUS SUMMARY\nold", "USER\ntask", "ASSISTANT\nI run it", "ASSISTANT CALLS bash\nxx"]
    assert (
        parts[4] == "TOOL RESULT (bash)\n" + "x" * (MAX_ITEM_CHARS - len(ITEM_TRUNCATION_MARK)) + ITEM_TRUNCATION_MARK
    )
    assert parts[5] == "TOOL ERROR (bash)\nno"


# --- what is shortened --------------------------------------------------------------------------------------------


@given(transcripts(), st.integers(min_value=0, max_value=100_000))
def test_shortened_transcript_is_valid_and_the_task_is_whole(
    messages: list[AssistantTurn | ToolAnswer | UserText], target: int
) -> None:
    result, count = shorten_messages(messages, target)

    assert is_valid(result)
    assert [m for m in result if isinstance(m, UserText) and not m.summary] == [
        m for m in messages if isinstance(m, UserText) and not m.summary
    ]
    assert count == sum(new != old for new, old in zip(result, messages, strict=True))
    assert all(new == old or new.text.endswith(SHORTENED_MARK) for new, old in zip(result, messages, strict=True))
    if sum(map(count_chars, result)) > target:  # then nothing more can go
        assert all(len(m.text) <= 512 for m in result if isinstance(m, ToolAnswer))
        assert all(len(m.text) <= 1024 for m in result if isinstance(m, AssistantTurn))
    if sum(map(count_chars, messages)) <= target:
        assert result == messages


def test_longest_goes_first_and_no_more_than_needed() -> None:
    messages: list[Message] = [asked(), turn("a", "b"), told("a", "x" * 20_000), told("b", "x" * 9000)]

    result, count = shorten_messages(messages, 18_000)

    assert count == 1
    assert [len(message.text) for message in result] == [5, 0, 8000, 9000]


def test_turn_with_data_of_its_provider_stays_as_it_is() -> None:
    kept = AssistantTurn(text="x" * 50_000, continuation={"signature": "s"})

    assert shorten_messages([asked(), kept], 0) == ([asked(), kept], 0)


# --- how long it is -----------------------------------------------------------------------------------------------


def test_without_a_report_tokens_are_a_quarter_of_the_characters() -> None:
    transcript = Transcript()
    transcript.append(asked("x" * 10))

    assert transcript.estimate_request_tokens(3) == 4


def test_what_a_provider_counted_is_not_estimated_again() -> None:
    transcript = Transcript()
    transcript.append(asked("x" * 1000))
    transcript.append(turn("c", text="y" * 1000), Usage(input=700, output=20))
    transcript.append(told("c", "z" * 41))

    assert transcript.estimate_request_tokens(99) == 720 + 11


def test_a_report_does_not_outlive_what_it_counted() -> None:
    transcript = Transcript()
    transcript.append(turn(), Usage(input=700, output=20))
    transcript.replace_messages([asked("xxxx")])

    assert (transcript.chars, transcript.estimate_request_tokens(0)) == (4, 1)
