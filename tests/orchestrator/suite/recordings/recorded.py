"""A cassette of one call, made by hand."""

from __future__ import annotations

from providers.base import Answer, TextDelta
from providers.errors import ProviderError
from providers.recording.cassette import Cassette, CassetteHeader, RecordedCall
from providers.recording.material import compute_fingerprint


def cassette(
    text: str = "hello", *, reply: Answer | ProviderError | None = None, delta: str = "hi", task: str = "t"
) -> Cassette:
    """*text* was asked, *delta* streamed and *reply* answered."""
    request = {
        "model": "m",
        "instructions": "",
        "tools": [],
        "maxOutputTokens": None,
        "reasoningEffort": None,
        "nativeTools": [],
        "messages": [{"user": {"text": text}}],
    }
    call = RecordedCall(
        request=request,
        fingerprint=compute_fingerprint(request),
        events=(TextDelta(delta),),
        reply=reply or Answer(text="hi"),
    )
    header = CassetteHeader(suite_id="s", suite_version="1.0.0", task_id=task, config_hash="", model="m", effects=())
    return Cassette(header=header, calls=(call,))
