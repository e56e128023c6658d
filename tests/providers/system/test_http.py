import asyncio
import gzip
import shutil
import ssl
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from providers.errors import ProviderError
from providers.system import http
from providers.system.http import HttpPool, check_base_url, render_url
from store.errors import UsageError
from tests.providers.loopback import Exchange, serving

pytestmark = pytest.mark.anyio
SECRET = "sk-hidden-value"


@pytest.fixture
async def pool() -> AsyncIterator[HttpPool]:
    pool = HttpPool()
    yield pool
    await pool.aclose()


async def fetch(pool: HttpPool, url: str, **options: Any) -> tuple[int, dict[str, str], bytes]:
    async with pool.post(url, {"Authorization": f"Bearer {SECRET}"}, b"{}", **options) as response:
        return response.status, response.headers, b"".join([piece async for piece in response.read_chunks()])


async def failing(pool: HttpPool, url: str, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as failed:
        await fetch(pool, url, **options)
    assert SECRET not in str(failed.value)
    return failed.value


# --- what goes through ------------------------------------------------------------------------------------------


async def test_request_arrives_as_given_and_nothing_is_added_that_identifies(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"ok", x_thing="1")

    async with serving(script) as server:
        status, headers, body = await fetch(pool, server.url + "/chat?a=b")
    assert (status, headers["x-thing"], body) == (200, "1", b"ok")
    path, sent, _ = server.requests[0]
    assert path == "/v1/chat?a=b"
    assert set(sent) == {"host", "authorization", "content-length"}


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello " * 1000)),
        ("gzip", gzip.compress(b"hello " * 500) + gzip.compress(b"hello " * 500)),
        ("deflate", zlib.compress(b"hello " * 1000)),
        ("identity", b"hello " * 1000),
    ],
)
async def test_compressed_body_is_decoded_however_it_is_cut(pool: HttpPool, encoding: str, packed: bytes) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head(content_encoding=encoding)
        for start in range(0, len(packed), 97):
            await exchange.chunk(packed[start : start + 97])
        await exchange.end()

    async with serving(script) as server:
        assert (await fetch(pool, server.url))[2] == b"hello " * 1000


@pytest.mark.parametrize(
    ("encoding", "body", "kind"),
    [
        ("gzip", gzip.compress(b"hello" * 100)[:-12], "truncated"),
        ("gzip", b"this is no gzip", "bad_payload"),
        ("compress", b"never asked for", "bad_payload"),
    ],
)
async def test_body_that_cannot_be_decoded_is_an_error(pool: HttpPool, encoding: str, body: bytes, kind: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(body, content_encoding=encoding)

    async with serving(script) as server:
        assert (await failing(pool, server.url)).kind == kind


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip", "compress", "deflate", "x, y, z"])
@pytest.mark.parametrize("status", [429, 503, 400])
async def test_status_counts_where_the_body_of_a_refusal_cannot_be_decoded(
    pool: HttpPool, encoding: str, status: int
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"\xff\xfe no such thing", status, content_encoding=encoding, retry_after=1)

    async with serving(script) as server, pool.post(server.url, {}, b"{}") as response:
        assert (response.status, response.headers["retry-after"]) == (status, "1")
        assert await response.read_start(100) == b""


async def test_untrusted_certificate_is_said_at_once_and_not_retried(pool: HttpPool, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate")
    made = [str(tmp_path / name) for name in ("key.pem", "cert.pem")]
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    await anyio.run_process([*command, "-keyout", made[0], "-out", made[1]])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made[1], made[0])

    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        error = await failing(pool, f"https://localhost:{server.sockets[0].getsockname()[1]}/v1")
    assert (error.kind, error.retryable, error.turned_away) == ("network", False, True)
    assert "certificate is not trusted" in error.message
    assert "SSL_CERT_FILE" in error.message


async def test_body_beyond_the_cap_is_refused_before_it_is_held_whole(
    pool: HttpPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 100_000)
    bomb = gzip.compress(b"\0" * 50_000_000)

    async def script(exchange: Exchange) -> None:
        await exchange.whole(bomb, content_encoding="gzip")

    async with serving(script) as server:
        error = await failing(pool, server.url)
    assert (error.kind, error.retryable) == ("bad_payload", False)


async def test_redirect_is_handed_out_and_not_followed(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"", 307, location=f"http://127.0.0.1:{exchange.server.port}/elsewhere")

    async with serving(script) as server:
        status, _, _ = await fetch(pool, server.url)
    assert status == 307
    assert len(server.requests) == 1


async def test_proxy_is_used_when_given() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"via proxy")

    async with serving(script) as server:
        pool = HttpPool(proxy=f"http://127.0.0.1:{server.port}")
        assert (await fetch(pool, "http://model.invalid/v1"))[2] == b"via proxy"
        await pool.aclose()
    assert server.requests[0][0] == "http://model.invalid/v1"


# --- connections ------------------------------------------------------------------------------------------------


async def test_connection_is_used_again_after_a_whole_answer(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("hi")

    async with serving(script) as server:
        for _ in range(5):
            await fetch(pool, server.url)
    assert server.connections == 1


async def test_connection_is_not_used_again_after_half_an_answer(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.chunk(b"half")
        await exchange.gone()

    async with serving(script) as server:
        for _ in range(2):
            async with pool.post(server.url, {}, b"{}") as response:
                assert await anext(response.read_chunks()) == b"half"
    assert server.connections == 2


async def test_hundred_requests_at_once_use_a_client_each_and_the_next_hundred_the_same(pool: HttpPool) -> None:
    everyone = anyio.Event()

    async def script(exchange: Exchange) -> None:
        if exchange.server.open == 100:
            everyone.set()
        with anyio.fail_after(10):
            await everyone.wait()
        await exchange.whole(b"ok")

    async with serving(script) as server:
        for _ in range(2):
            async with anyio.create_task_group() as group:
                for _ in range(100):
                    group.start_soon(fetch, pool, server.url)
    assert server.peak == 100
    assert (pool.clients, server.connections) == (100, 100)


async def test_connections_of_one_endpoint_are_not_given_up_for_another(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"ok")

    async with serving(script) as one, serving(script) as other:
        for _ in range(3):
            await fetch(pool, one.url)
            await fetch(pool, other.url)
    assert (one.connections, other.connections) == (1, 1)


async def test_kept_connection_that_the_server_has_closed_is_replaced(pool: HttpPool) -> None:
    closed = anyio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"ok")
        exchange.close()
        await exchange.writer.wait_closed()
        closed.set()

    async with serving(script) as server:
        await fetch(pool, server.url)
        await closed.wait()
        assert (await fetch(pool, server.url))[2] == b"ok"
    assert server.connections == 2


async def test_kept_connection_that_closes_under_the_request_is_a_retryable_network_error(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        if len(exchange.server.requests) == 2:
            exchange.close()
        else:
            await exchange.whole(b"ok")

    async with serving(script) as server:
        await fetch(pool, server.url)
        error = await failing(pool, server.url)
        assert (error.kind, error.retryable, error.mid_stream) == ("network", True, False)
        assert (await fetch(pool, server.url))[2] == b"ok"


async def test_plain_http_reads_no_certificate_authorities(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"ok")

    async with serving(script) as server:
        await fetch(pool, server.url)
    assert set(pool._contexts) == {False}
    assert pool._contexts[False].cert_store_stats()["x509_ca"] == 0


# --- faults -----------------------------------------------------------------------------------------------------


async def test_refused_connection_names_the_endpoint_and_no_credential(pool: HttpPool) -> None:
    async with serving(None) as server:
        url = f"http://user:{SECRET}@127.0.0.1:{server.port}/v1?key={SECRET}"
    error = await failing(pool, url)
    assert (error.kind, error.retryable) == ("network", True)
    assert f"http://127.0.0.1:{server.port}/v1: cannot connect" in error.message
    assert isinstance(error.__cause__, Exception)


async def test_answer_that_never_begins_times_out(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.gone()

    async with serving(script) as server:
        error = await failing(pool, server.url, first_byte_s=0.05)
    assert (error.kind, error.retryable, error.mid_stream) == ("timeout", True, False)


async def test_headers_alone_do_not_stop_the_first_bytes_clock(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.gone()

    async with serving(script) as server:
        error = await failing(pool, server.url, first_byte_s=0.05, idle_s=30)
    assert (error.kind, error.mid_stream) == ("timeout", True)
    assert "no byte" in error.message


async def test_slow_first_byte_within_its_time_is_fine_though_longer_than_a_pause_may_be(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await anyio.sleep(0.15)
        await exchange.raw(b"2\r\nok\r\n0\r\n\r\n")

    async with serving(script) as server:
        assert (await fetch(pool, server.url, first_byte_s=10, idle_s=0.05))[2] == b"ok"


async def test_answer_that_stalls_times_out(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.chunk(b"a")
        await exchange.gone()

    async with serving(script) as server:
        error = await failing(pool, server.url, first_byte_s=30, idle_s=0.05)
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "stalled" in error.message


async def test_stall_in_a_body_that_ends_with_its_connection_is_no_end(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head(transfer_encoding=None)
        await exchange.raw(b"a")
        await exchange.gone()

    async with serving(script) as server:
        assert (await failing(pool, server.url, idle_s=0.05)).kind == "timeout"


async def test_every_byte_restarts_the_clock(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        for _ in range(4):
            await exchange.chunk(b": ping\n")
            await anyio.sleep(0.2)
        await exchange.end()

    async with serving(script) as server:
        assert len((await fetch(pool, server.url, idle_s=0.7))[2]) == 28


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_connection_that_breaks_in_the_body_is_truncated(pool: HttpPool, how: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.chunk(b"half")
        getattr(exchange, how)()

    async with serving(script) as server:
        error = await failing(pool, server.url)
    assert (error.kind, error.retryable, error.mid_stream) == ("truncated", True, True)


async def test_reset_before_an_answer_is_a_network_error(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        exchange.reset()

    async with serving(script) as server:
        assert (await failing(pool, server.url)).kind == "network"


async def test_answer_that_is_no_http_is_a_network_error(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        exchange.close()

    async with serving(script) as server:
        assert (await failing(pool, server.url)).kind == "network"


async def test_key_with_a_line_break_is_refused_and_not_shown(pool: HttpPool) -> None:
    async with serving(None) as server:
        with pytest.raises(ProviderError) as failed:
            async with pool.post(server.url, {"Authorization": f"Bearer {SECRET}\r\nx: y"}, b"{}"):
                pass
    assert (failed.value.kind, failed.value.retryable) == ("invalid_request", False)
    assert SECRET not in str(failed.value)


@pytest.mark.parametrize("begun", [False, True])
async def test_cancellation_closes_the_socket_at_once(pool: HttpPool, begun: bool) -> None:
    here, closed = anyio.Event(), anyio.Event()

    async def script(exchange: Exchange) -> None:
        if begun:
            await exchange.head()
            await exchange.chunk(b"a")
        here.set()
        await exchange.gone()
        closed.set()

    async with serving(script) as server:
        async with anyio.create_task_group() as group:
            group.start_soon(fetch, pool, server.url)
            await here.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(1):
            await closed.wait()
    assert not pool._busy


async def test_pool_serves_on_after_many_cancellations(pool: HttpPool) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"ok")

    async with serving(script) as server:
        for turns in range(30):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(fetch, pool, server.url)
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
        with anyio.fail_after(5):
            for _ in range(3):
                assert (await fetch(pool, server.url))[2] == b"ok"
    assert not pool._busy


async def test_request_after_closing_leaves_nothing_open() -> None:
    pool = HttpPool()

    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"ok")

    async with serving(script) as server:
        await fetch(pool, server.url)
        await pool.aclose()
        assert pool.clients == 0
        await fetch(pool, server.url)
        assert pool.clients == 0


async def test_repr_tells_the_state(pool: HttpPool) -> None:
    assert repr(pool) == "<HttpPool: 0 clients, 0 in use>"


# --- URLs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://u:p@h.example:8443/v1?k=v#f", "https://h.example:8443/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("http://h:port/", "(an unreadable URL)"),
        ("localhost/v1", "'localhost/v1'"),
        ("user:hidden@h/v1", "(an unreadable URL)"),
    ],
)
def test_url_is_shown_without_credentials_and_query(url: str, seen: str) -> None:
    assert render_url(url) == seen


def test_base_url_loses_its_trailing_slash_and_keeps_its_query() -> None:
    assert check_base_url(" https://h/v1/ ") == "https://h/v1"
    assert check_base_url("https://h/v1/?api-version=1") == "https://h/v1?api-version=1"


@pytest.mark.parametrize(
    "url", ["ftp://h/v1", "h/v1", "http://", "http://h:99999/", "https://u:hidden@h/v1", "u:hidden@h/v1", "http://[::1"]
)
def test_base_url_that_cannot_be_used_is_refused_without_showing_credentials(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_base_url(url)
    assert "hidden" not in str(refused.value)
