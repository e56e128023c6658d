import asyncio
import json
from asyncio.streams import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from pathlib import Path
from socket import SocketKind
from typing import Any

import anyio
import pytest

from providers.agent import fetch
from providers.agent.fetch import FETCH_URL, MAX_BYTES, decode_body, fetch_url, is_public, parse_target, resolve_host
from providers.agent.tools import ToolContext, ToolFailed
from tests.providers.loopback import Exchange, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(workspace: Path) -> ToolContext:
    return ToolContext(workspace=workspace, marker="sweep-1a2b3c4d/0/1", home=lambda: workspace, allow_private=True)


@pytest.fixture
def closed(workspace: Path) -> ToolContext:
    """As it is by default: private addresses are refused."""
    return ToolContext(workspace=workspace, marker="sweep-1a2b3c4d/0/1", home=lambda: workspace)


async def got(place: ToolContext, url: str, **arguments: Any) -> dict[str, Any]:
    return json.loads(await fetch_url(place, {"url": url, **arguments}))


def answering(body: bytes, status: int = 200, **headers: Any) -> Callable[..., Awaitable[None]]:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(body, status, **headers)

    return script


# --- what is fetched ----------------------------------------------------------------------------------------------


async def test_text_comes_with_status_and_type_and_nothing_is_sent_that_identifies(place: ToolContext) -> None:
    async with serving(answering(b"<p>hello", content_type="text/html; charset=utf-8")) as server:
        result = await got(place, f"http://127.0.0.1:{server.port}/a?b=c#d")

    assert result == {
        "url": f"http://127.0.0.1:{server.port}/a?b=c",
        "status": 200,
        "contentType": "text/html; charset=utf-8",
        "text": "<p>hello",
        "truncated": False,
    }
    path, headers, body = server.requests[0]
    assert (path, body) == ("/a?b=c", b"")
    assert set(headers) == {"host", "accept", "accept-encoding", "user-agent"}
    assert headers["host"] == f"127.0.0.1:{server.port}"


async def test_name_is_resolved_and_its_host_is_named_in_the_request(place: ToolContext) -> None:
    async with serving(answering(b"ok", content_type=None)) as server:
        assert (await got(place, f"http://localhost:{server.port}"))["text"] == "ok"

    assert server.requests[0][1]["host"] == f"localhost:{server.port}"


async def test_failed_status_is_an_answer(place: ToolContext) -> None:
    async with serving(answering(b"no such page", 404, content_type="text/plain")) as server:
        result = await got(place, server.url)

    assert (result["status"], result["text"]) == (404, "no such page")


async def test_body_is_cut_at_the_bytes_asked_for(place: ToolContext) -> None:
    async with serving(answering("äöü".encode(), content_type="text/plain")) as server:
        result = await got(place, server.url, maxBytes=3)

    assert (result["text"], result["truncated"]) == ("ä\N{REPLACEMENT CHARACTER}", True)


async def test_endless_body_ends_at_the_bound(place: ToolContext) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head(content_type="text/plain")
        while True:
            await exchange.chunk(b"x" * 65536)

    async with serving(script) as server:
        result = await got(place, server.url, maxBytes=100_000)

    assert (len(result["text"]), result["truncated"]) == (100_000, True)


async def test_body_that_is_no_text_is_not_shown(place: ToolContext) -> None:
    async with serving(answering(b"\x89PNG", content_type="image/png")) as server:
        with pytest.raises(ToolFailed, match="image/png, not text"):
            await got(place, server.url)


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "café"),
        ('text/plain; charset="Windows-1252"', b"\x80", "€"),
        ("text/plain; charset=utf-8", b"\xef\xbb\xbfa\xff", "a\N{REPLACEMENT CHARACTER}"),
        ("text/plain; charset=utf-16", b"\xff\xfea\x00", "a"),
        ("text/plain", "é".encode(), "é"),
        ("text/plain; charset=no-such", b"a", "a"),
        ("text/plain; charset=unicode_escape", rb"\x41", r"\x41"),
        ("text/plain; charset=punycode", b"a-", "a-"),
        ("text/plain; charset=zlib", b"a", "a"),
    ],
)
def test_text_is_decoded_by_its_character_set_and_no_other_codec(content_type: str, body: bytes, text: str) -> None:
    assert decode_body(body, content_type) == text


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://example.org/", "http"),
        ("file:///etc/passwd", "http"),
        ("example.org", "http"),
        ("http://", "host"),
        ("http://me:secret@example.org/", "password"),
        ("http://me@example.org/", "password"),
        ("http://example.org:99999/", "read"),
        ("http://[::1/", "read"),
        ("http://a b/", "spaces"),
        ("http://a\n/", "spaces"),
        ("http://a\\@b/", "spaces"),
        ("http://a/" + "x" * 2000, "2000"),
    ],
)
def test_address_that_may_not_be_asked_for_is_refused_without_showing_it(url: str, told: str) -> None:
    with pytest.raises(ToolFailed, match=told) as refused:
        parse_target(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%lo", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe", "::7f00:1", "64:ff9b:1::a00:1", "fec0::1", "5f00::1", "3fff::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_the_internet_at_large_are_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::808:808"])
def test_public_addresses_are_known(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "0177.0.0.1"])
async def test_private_hosts_are_refused_however_they_are_written(closed: ToolContext, host: str) -> None:
    async with serving(answering(b"secret")) as server:
        with pytest.raises(ToolFailed, match="private network"):
            await got(closed, f"http://{host}:{server.port}/")

    assert server.connections == 0


async def test_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(host: str, port: int, *, type: SocketKind) -> list[tuple[int, int, int, str, tuple[str, int]]]:  # noqa: A002 - as the function it stands for
        return [(2, 1, 6, "", ("93.184.216.34", port)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(anyio, "getaddrinfo", both)
    with pytest.raises(ToolFailed, match="private network"):
        await resolve_host(parse_target("http://rebound.example/"), allow_private=False)


async def test_address_that_was_checked_is_the_one_connected_to(
    place: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that would lead elsewhere the second time leads where it led the first time."""
    names = iter(["127.0.0.1"])

    async def once(host: str, port: int, *, type: SocketKind) -> list[tuple[int, int, int, str, tuple[str, int]]]:  # noqa: A002 - as the function it stands for
        return [(2, 1, 6, "", (next(names), port))]

    monkeypatch.setattr(anyio, "getaddrinfo", once)
    async with serving(answering(b"ok", content_type="text/plain")) as server:
        result = await got(place, f"http://no-such-name.invalid:{server.port}/")

    assert result["text"] == "ok"
    assert server.requests[0][1]["host"] == f"no-such-name.invalid:{server.port}"


async def test_unreachable_address_gives_way_to_the_next_of_its_name(
    place: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def two(host: str, port: int, *, type: SocketKind) -> list[tuple[int, int, int, str, tuple[str, int]]]:  # noqa: A002 - as the function it stands for
        return [(2, 1, 6, "", ("127.0.0.2", port)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(anyio, "getaddrinfo", two)
    async with serving(answering(b"ok", content_type="text/plain")) as server:
        assert (await got(place, f"http://two.invalid:{server.port}/"))["text"] == "ok"


async def test_host_that_cannot_be_found_or_reached_is_told(place: ToolContext) -> None:
    with pytest.raises(ToolFailed, match="cannot be found"):
        await got(place, "http://no-such-name.invalid/")
    async with serving(answering(b"")) as server:
        pass
    with pytest.raises(ToolFailed, match="cannot connect"):
        await got(place, server.url)


# --- redirects ----------------------------------------------------------------------------------------------------


def redirecting(to: str, *, times: int = 1) -> Callable[..., Awaitable[None]]:
    async def script(exchange: Exchange) -> None:
        if len(exchange.server.requests) <= times:
            await exchange.whole(b"", 302, location=to.format(port=exchange.server.port))
        else:
            await exchange.whole(b"there", content_type="text/plain")

    return script


@pytest.mark.parametrize("to", ["/b", "b", "http://127.0.0.1:{port}/b"])
async def test_redirect_within_a_host_is_followed(place: ToolContext, to: str) -> None:
    async with serving(redirecting(to)) as server:
        result = await got(place, f"http://127.0.0.1:{server.port}/a")

    assert (result["text"], result["url"]) == ("there", f"http://127.0.0.1:{server.port}/b")


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("http://localhost:{port}/b", "another host"),
        ("//example.org/", "another host"),
        ("http://127.0.0.1:1/", "another host"),
        ("file:///etc/passwd", "http"),
        ("http://me:pw@127.0.0.1:{port}/", "password"),
    ],
)
async def test_redirect_elsewhere_is_told_and_not_followed(place: ToolContext, to: str, told: str) -> None:
    async with serving(redirecting(to)) as server:
        with pytest.raises(ToolFailed, match=told):
            await got(place, f"http://127.0.0.1:{server.port}/a")

    assert len(server.requests) == 1


@pytest.mark.parametrize("to", ["http://[", "http://[::1", "//a]b/"])
async def test_redirect_to_what_is_no_url_is_told(place: ToolContext, to: str) -> None:
    async with serving(redirecting(to)) as server:
        with pytest.raises(ToolFailed, match="no URL"):
            await got(place, f"http://127.0.0.1:{server.port}/")


async def test_redirects_without_end_end(place: ToolContext) -> None:
    async with serving(redirecting("/again", times=100)) as server:
        with pytest.raises(ToolFailed, match="5 redirects"):
            await got(place, server.url)

    assert len(server.requests) == 6


# --- time and tools -----------------------------------------------------------------------------------------------


async def test_host_that_says_nothing_is_given_up_in_time(place: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FETCH_TIMEOUT_S", 0.2)

    async def script(exchange: Exchange) -> None:
        await exchange.gone()

    async with serving(script) as server:
        with pytest.raises(ToolFailed, match=r"within 0\.2 s"):
            await got(place, server.url)


async def test_secure_host_is_asked_for_the_certificate_of_its_name(
    place: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello = bytearray()

    async def talk(reader: StreamReader, writer: StreamWriter) -> None:
        hello.extend(await reader.read(4096))
        writer.close()

    async def here(host: str, port: int, *, type: SocketKind) -> list[tuple[int, int, int, str, tuple[str, int]]]:  # noqa: A002 - as the function it stands for
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(anyio, "getaddrinfo", here)
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ToolFailed, match="cannot connect"):
            await got(place, f"https://named.invalid:{server.sockets[0].getsockname()[1]}/")
    assert b"named.invalid" in hello


def test_it_reaches_outside_and_is_bounded() -> None:
    assert FETCH_URL.effect == "external"
    assert FETCH_URL.spec.input_schema["properties"]["maxBytes"]["maximum"] == MAX_BYTES
