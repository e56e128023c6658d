"""Tests that keep-alives keep a connection, count as no token, and spoil no answer."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from providers.endpoints.anthropic import AnthropicMessages
from providers.endpoints.endpoint import Endpoint
from providers.endpoints.ollama import OllamaChat
from providers.endpoints.openai import OpenAIChat
from providers.endpoints.responses import OpenAIResponses
from providers.system.http import HttpPool
from tests.providers.endpoints.asking import KEY, ask, failing
from tests.providers.loopback import Exchange, delta, serving

pytestmark = pytest.mark.anyio

Script = Callable[[Exchange], Awaitable[None]]
PAUSE_S = 0.02
ALIVE = [b": PROCESSING\n\n", b"data:\n\n", b"event: ping\ndata: \n\n", b'event: ping\ndata: {"type":"ping"}\n\n']


def provider_at(kind: type[Endpoint[Any]], url: str, **limits: Any) -> Endpoint[Any]:
    return kind(base_url=url, api_key=KEY, pool=HttpPool(), **limits)


def alive_after(first: bytes, sign: bytes) -> Script:
    """Sends *first*, then the *sign* of life until the client goes."""

    async def script(exchange: Exchange) -> None:
        await exchange.head()
        if first:
            await exchange.chunk(first)
        try:
            while True:
                await exchange.chunk(sign)
                await anyio.sleep(PAUSE_S)
        except ConnectionError:
            exchange.close()

    return script


@pytest.mark.parametrize("sign", ALIVE)
async def test_keep_alives_alone_end_at_the_time_for_the_first_token(sign: bytes) -> None:
    async with serving(alive_after(b"", sign)) as server:
        provider = provider_at(OpenAIChat, server.url, first_byte_s=0.3, idle_s=30, token_idle_s=30)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.retryable, error.kept_alive, error.text) == ("timeout", True, True, "")


ANNOUNCED = [
    (OpenAIChat, b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'),
    (AnthropicMessages, b'data: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n'),
    (OpenAIResponses, b'data: {"type":"response.created","response":{"model":"m"}}\n\n'),
    (OpenAIResponses, b'data: {"type":"response.in_progress","response":{"model":"m"}}\n\n'),
    (OllamaChat, b'{"model":"m","message":{"content":""},"done":false}\n'),
]


@pytest.mark.parametrize(("kind", "first"), ANNOUNCED)
async def test_announcement_of_an_answer_is_no_token(kind: type[Endpoint[Any]], first: bytes) -> None:
    sign = first if kind is OllamaChat else b'data: {"type":"ping"}\n\n'
    async with serving(alive_after(first, sign)) as server:
        provider = provider_at(kind, server.url, first_byte_s=0.3, idle_s=30, token_idle_s=30)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.kept_alive) == ("timeout", True)


@pytest.mark.parametrize("sign", ALIVE)
async def test_pause_without_tokens_is_bounded_after_the_first_one(sign: bytes) -> None:
    first = b'data: {"choices":[{"index":0,"delta":{"content":"The "}}]}\n\n'
    async with serving(alive_after(first, sign)) as server:
        provider = provider_at(OpenAIChat, server.url, first_byte_s=30, idle_s=30, token_idle_s=0.3)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.kept_alive, error.text) == ("timeout", True, "The ")
    assert "keep-alives" in error.message


async def test_silence_is_still_told_from_keep_alives() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(delta("a"))
        await exchange.gone()

    async with serving(script) as server:
        provider = provider_at(OpenAIChat, server.url, first_byte_s=30, idle_s=0.1, token_idle_s=30)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.kept_alive) == ("timeout", False)


async def test_long_reasoning_behind_keep_alives_is_an_answer() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(delta("a"))
        for sign in ALIVE * 4:
            await exchange.chunk(sign)
            await anyio.sleep(PAUSE_S)
        await exchange.event(delta("b"))
        await exchange.event(delta("", "stop"))
        await exchange.event(b"[DONE]")
        await exchange.end()

    async with serving(script) as server:
        provider = provider_at(OpenAIChat, server.url, first_byte_s=0.2, idle_s=10, token_idle_s=10)
        answer, _ = await ask(provider)
        await provider.aclose()
    assert answer.text == "ab"
