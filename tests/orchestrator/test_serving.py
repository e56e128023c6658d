"""Where the hub may listen, and what it needs."""

from __future__ import annotations

import asyncio
import resource
import socket

import pytest

from orchestrator import serving
from store.errors import UsageError


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "127.0.0.2", "::1", "[::1]"])
def test_loopback_addresses_are_listened_on(host: str) -> None:
    if ":" in host and not ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    listener = serving.open_listener(host, 0)
    with listener.socket, socket.create_connection((listener.host, listener.port), 10):
        assert listener.url_of("/x").endswith(f":{listener.port}/x")


def ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_answers_are_not_held_back_for_more() -> None:
    """asyncio switches Nagle's algorithm off on connections that it knows for TCP; 40 ms an answer are at stake."""

    async def main() -> list[bool]:
        listener = serving.open_listener("127.0.0.1", 0)
        held_back = []

        class Peer(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                taken = transport.get_extra_info("socket")
                held_back.append(not taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        async with await asyncio.get_running_loop().create_server(Peer, sock=listener.socket):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            await reader.read()
            writer.close()
        return held_back

    assert asyncio.run(main()) == [False]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "", "127.1", "127.0.0.1:80"])
def test_nothing_that_others_can_reach_is_listened_on(host: str) -> None:
    with pytest.raises(UsageError, match="expected a loopback address"):
        serving.open_listener(host, 0)


def test_a_port_that_is_taken_is_told() -> None:
    first = serving.open_listener("127.0.0.1", 0)
    with first.socket, pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1, port {first.port}: Address"):
        serving.open_listener("127.0.0.1", first.port)


def test_a_socket_that_cannot_be_had_is_told() -> None:
    """As where the kernel has no IPv6."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(UsageError, match=r"cannot listen on ::1, port 0: "):
            serving.open_listener("::1", 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_address_of_version_6_is_bracketed_in_urls() -> None:
    with socket.socket() as unused:
        assert serving.Listener(socket=unused, host="::1", port=7).url_of("/v1/hub") == "http://[::1]:7/v1/hub"


@pytest.mark.parametrize("missing", [("uvicorn",), ("starlette", "uvicorn")])
def test_without_the_extra_the_command_to_install_it_is_told(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name in missing else object())
    with pytest.raises(UsageError) as caught:
        serving.require_server()
    assert str(caught.value) == (
        f"hub serve needs {' and '.join(missing)}\nInstall them, in the checkout: pip install '.[hub]'"
    )
