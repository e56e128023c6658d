"""Secrets leave text in every form they may take, and nothing else does."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.secrets.redactor import Redactor, find_credentials

KEY = "p4ss/w0rd+with=odd\"chars'é"
PLAIN = "Zx81-not-a-real-credential"
REDACTOR = Redactor([("ODD_KEY", KEY), ("PLAIN_TOKEN", PLAIN), ("SHORT_KEY", "short")])
EMPTY = Redactor([])

SHAPES = {
    "sk-key": ["sk-" + "a1B2" * 8, "sk-ant-api03-" + "a_B-" * 8, "sk-proj-" + "a1B2" * 10, "sk-or-v1-" + "0f" * 32],
    "github-token": ["ghp_" + "a1B2" * 9, "gho_" + "a1B2" * 9, "github_pat_" + "a1B2_" * 8],
    "gitlab-token": ["glpat-" + "a1B2-" * 4],
    "aws-key": ["AKIA" + "A1B2" * 4],
    "slack-token": ["xoxb-123456789012-abcdef", "xoxp-123456789012-abcdef"],
    "google-key": ["AIza" + "a1B2_" * 7],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3.c2lnbmF0dXJlLW9mLWl0"],
    "private-key": [
        "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\\nMIIEvQ==\\n-----END RSA PRIVATE KEY-----",
    ],
}


@pytest.mark.parametrize("before", ["", "key=", '{"k": "', "\n", "\\n", "%20", "Bearer ", "["])
@pytest.mark.parametrize(("name", "secret"), [(name, secret) for name, many in SHAPES.items() for secret in many])
def test_a_string_in_the_shape_of_a_known_key_is_taken_out_whole(before: str, name: str, secret: str) -> None:
    assert EMPTY.redact_text(f'{before}{secret}" etc.') == f'{before}[redacted:{name}]" etc.'


@pytest.mark.parametrize(
    "harmless",
    [
        "task-force-abcdefghijklmnopqrstuvwxyz",
        "disk-5f4dcc3b5aa765d61d8327deb882cf99",
        "sk-learn",
        "the eyJ prefix of a token",
        "ghp_short",
        "-----BEGIN CERTIFICATE-----",
        "------------------",
        "AKIA is four letters",
        "short",
        "",
    ],
)
def test_ordinary_text_stays_as_it_is(harmless: str) -> None:
    assert REDACTOR.redact_text(harmless) == harmless


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        b64encode(KEY.encode()).decode(),
        b64encode(KEY.encode()).decode().rstrip("="),
        urlsafe_b64encode(KEY.encode()).decode(),
        quote(KEY, safe=""),
        quote(KEY, safe="").lower().replace("p4ss", "p4ss"),
        quote(KEY),
        json.dumps(KEY)[1:-1],
        json.dumps(KEY, ensure_ascii=False)[1:-1],
        json.dumps(KEY)[1:-1].replace("/", "\\/"),
    ],
)
def test_every_form_of_a_value_becomes_the_mark_with_its_name(form: str) -> None:
    assert REDACTOR.redact_text(f"<{form}>") == "<[redacted:ODD_KEY]>"


@given(before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_a_value_inside_a_longer_base64_text_does_not_survive(before: bytes, after: bytes) -> None:
    encoded = b64encode(before + PLAIN.encode() + after).decode()

    clean = REDACTOR.redact_text(encoded)

    assert "[redacted:PLAIN_TOKEN]" in clean
    assert len(clean.replace("[redacted:PLAIN_TOKEN]", "")) <= len(encoded) - len(PLAIN)


def test_of_two_values_that_begin_alike_the_longer_one_is_taken() -> None:
    both = Redactor([("A", "abcdefgh"), ("B", "abcdefghij")])

    assert both.redact_text("abcdefghij abcdefghi") == "[redacted:B] [redacted:A]i"


def test_a_short_value_is_no_secret() -> None:
    assert Redactor([("PIN", "1234567")]).redact_text("1234567") == "1234567"


def test_the_name_of_a_variable_cannot_break_the_mark() -> None:
    assert Redactor([("A]B[C", "abcdefghij")]).redact_text("abcdefghij") == "[redacted:A_B_C]"


awkward = st.sampled_from(
    [
        *("[redacted:", "]", "[", "redacted", "ODD_KEY", "[redacted:ODD_KEY]", "[redacted:jwt]", "\\n", "%20", "x"),
        *(
            "…",
            "sk-",
            "sk-ant-",
            "a" * 20,
            "ghp_",
            "b" * 40,
            "eyJ",
            ".eyJ",
            ".",
            "-----BEGIN PRIVATE KEY-----",
            "-----END ",
        ),
        *(KEY, PLAIN, KEY[:9], KEY[9:], PLAIN[:5], PLAIN[5:], b64encode(PLAIN.encode()).decode(), "é", "\ud800"),
    ]
)


@given(
    values=st.lists(
        st.tuples(st.sampled_from(["A", "ODD_KEY"]), st.lists(awkward, max_size=3).map("".join)), max_size=3
    ),
    text=st.lists(awkward, max_size=12).map("".join),
)
def test_redacting_twice_is_redacting_once(values: list[tuple[str, str]], text: str) -> None:
    redactor = Redactor(values)

    once = redactor.redact_text(text)

    assert redactor.redact_text(once) == once


@given(text=st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    assert REDACTOR.redact_text(REDACTOR.redact_text(text)) == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    "piece", ["eyJ", "sk-", "github_pat_", "-----BEGIN ", "ghp_", "eyJaaaaaaaaa.", "[redacted:", "-"]
)
def test_hostile_repetition_is_read_to_its_end(piece: str) -> None:
    text = piece * 3000

    once = REDACTOR.redact_text(text)

    assert REDACTOR.redact_text(once) == once
    assert REDACTOR.find_open_start(text) >= len(text) - REDACTOR.longest


def test_json_is_redacted_in_strings_and_keys_and_copied() -> None:
    value: dict[str, Any] = {"a": [PLAIN, 1, None, True, ("t", {PLAIN: PLAIN})], KEY: 2.5}

    clean = REDACTOR.redact_json(value)

    assert clean == {
        "a": ["[redacted:PLAIN_TOKEN]", 1, None, True, ["t", {"[redacted:PLAIN_TOKEN]": "[redacted:PLAIN_TOKEN]"}]],
        "[redacted:ODD_KEY]": 2.5,
    }
    assert value["a"][0] == PLAIN


def test_json_keeps_every_entry_though_two_keys_become_equal() -> None:
    assert REDACTOR.redact_json({PLAIN: 1, quote(PLAIN, safe=""): 2, b64encode(PLAIN.encode()).decode(): 3}) == {
        "[redacted:PLAIN_TOKEN]": 2,
        "[redacted:PLAIN_TOKEN]#2": 3,
    }


def test_json_of_any_depth_is_redacted() -> None:
    deep: list[Any] = [PLAIN]
    for _ in range(20_000):
        deep = [deep]

    clean = REDACTOR.redact_json(deep)

    while isinstance(clean[0], list):
        clean = clean[0]
    assert clean == ["[redacted:PLAIN_TOKEN]"]


def test_nothing_is_longer_than_longest() -> None:
    assert max(map(len, [KEY, PLAIN])) <= REDACTOR.longest


@pytest.mark.parametrize("secret", [KEY, PLAIN, *(secret for many in SHAPES.values() for secret in many)])
def test_every_beginning_of_a_secret_is_recognised_as_one(secret: str) -> None:
    for length in range(1, len(secret) - 1):
        text = "text: " + secret[:length]
        settled = [start for start, _, _ in REDACTOR.find_secrets(text)]
        assert REDACTOR.find_open_start(text) <= 6 or settled == [6]


def test_text_that_begins_no_secret_is_open_nowhere() -> None:
    assert REDACTOR.find_open_start("The quick brown fox.") == 20


def test_credentials_are_chosen_by_name_and_not_by_value_alone() -> None:
    environment = {
        "OPENAI_API_KEY": "sk-something-long",
        "MY_TOKEN": "token-value-1",
        "DB_PASSWORD": "hunter2hunter2",
        "GIT_AUTHOR_NAME": "Ada Lovelace",
        "AUTHORIZATION": "Bearer abcdefgh",
        "KEYBOARD_LAYOUT": "us-international",
        "SSH_AUTH_SOCK": "/tmp/ssh-AbCdEf/agent.1234",
        "KEY_FILE": "/home/me/.ssh/id_ed25519",
        "TOKEN_LIMIT": "100000000",
        "TINY_KEY": "1234567",
        "API_KEY_ENV": "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY": "/wJalrXUtnFEMI/K7MDENGbPxRfiCYEXAMPLEKEYab",
        "DATABASE_URL": "postgres://me:hunter2%21hunter2@db.example/x",
        "HOMEPAGE": "https://example.org/@me",
        "HOME": "/home/me",
    }

    assert sorted({name for name, _ in find_credentials(environment)}) == [
        *("AUTHORIZATION", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "DB_PASSWORD", "MY_TOKEN", "OPENAI_API_KEY"),
    ]
    assert ("DATABASE_URL", "hunter2!hunter2") in find_credentials(environment)


@given(
    st.integers(8, 30), st.sampled_from(["", "so ", "…", "x…", '{"key": "']), st.sampled_from(["", '"}', " and on…"])
)
def test_what_a_cut_leaves_of_a_secret_is_taken_out(length: int, before: str, after: str) -> None:
    redactor = Redactor([("HOUSE_KEY", "zq-0123456789-abcdefghijklmnop-9")])
    cut = f"{before}{'zq-0123456789-abcdefghijklmnop-9'[:length]}…{after}"
    clean = redactor.redact_text(cut)
    assert clean == f"{before}[redacted:credential]…{after}"
    assert redactor.redact_text(clean) == clean
    assert redactor.redact_json({cut: [cut]}) == {clean: [clean]}


def test_a_cut_text_that_begins_no_secret_stays_as_it_is() -> None:
    redactor = Redactor([("HOUSE_KEY", "zq-0123456789-abcdefghijklmnop-9")])
    for text in ("…", "a word zq…", "zq-0123…", "zq-0123456789 is no key…", "sk-…", "x" * 100_000 + "…", "…" * 10_000):
        assert redactor.redact_text(text) == text
