"""A credential is kept out of cassettes in whatever form it comes, and wherever of a recording it stands."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from orchestrator.suite.recordings.cassettes import write_cassettes
from providers.base import Answer
from providers.errors import ProviderError
from providers.recording.cassette import decode_cassette
from store.errors import UsageError
from store.secrets.redactor import Redactor
from tests.orchestrator.suite.recordings.recorded import cassette

KEY = "p4ss/w+rd ü-of-ours-77"
"""No shape that anybody knows, and characters that every encoding writes otherwise."""
REDACTOR = Redactor([("OUR_KEY", KEY)])
FORMS = {
    "plain": KEY,
    "base64": b64encode(KEY.encode()).decode(),
    "base64 of more": b64encode(f"user:{KEY}".encode()).decode(),
    "base64 for URLs": urlsafe_b64encode(KEY.encode()).decode(),
    "URL": f"https://host/?key={quote(KEY, safe='')}",
    "JSON": json.dumps({"key": KEY}),
    "header": f"Authorization: Bearer {KEY}",
}


def failed(message: str) -> ProviderError:
    return ProviderError(kind="server_error", message=message, retryable=False)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("field", "make"),
    {
        "calls[0].request": lambda secret: cassette(text=secret),
        "calls[0].events[0].text": lambda secret: cassette(delta=secret),
        "calls[0].answer.text": lambda secret: cassette(reply=Answer(text=secret)),
        "calls[0].error": lambda secret: cassette(reply=failed(secret)),
    }.items(),
)
def test_a_credential_is_refused_in_any_form_and_not_shown(
    tmp_path: Path, form: str, field: str, make: Callable[..., Any]
) -> None:
    path = tmp_path / "t.jsonl"
    write_cassettes({path: cassette("before")}, REDACTOR)
    with pytest.raises(UsageError) as refused:
        write_cassettes({path: make(f"it is {form}, keep it")}, REDACTOR)
    assert field in str(refused.value)
    assert KEY not in str(refused.value)
    assert form not in str(refused.value)
    assert decode_cassette(path.read_bytes(), name="t") == cassette("before"), (
        "what was recorded before is left as it was"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]
