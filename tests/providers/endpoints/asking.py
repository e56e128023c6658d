"""A request to begin from, and asking a provider with it."""

from typing import Any

import pytest

from providers.base import Answer, Emitted, Origin, Request, ToolSpec, UserText
from providers.endpoints.endpoint import Endpoint
from providers.errors import ProviderError

KEY = "sk-hidden-value-0123"
ASKED = Request(
    origin=Origin(suite_id="s", case_id="c", repetition=0),
    model="m-1",
    instructions="Be brief.",
    messages=(UserText(text="Hello"),),
    key="20261130T101500Z-1a2b3c4d/7/1/1",
)
TOOL = ToolSpec(name="f", description="d", input_schema={"type": "object"})


async def ask(provider: Endpoint[Any], request: Request = ASKED) -> tuple[Answer, list[Emitted]]:
    """The answer, and what was heard before it."""
    heard: list[Emitted] = []
    return await provider.answer(request, heard.append), heard


async def failing(provider: Endpoint[Any], request: Request = ASKED) -> ProviderError:
    """The error, which does not show the key."""
    with pytest.raises(ProviderError) as failed:
        await provider.answer(request, lambda _: None)
    assert KEY not in str(failed.value)
    return failed.value
