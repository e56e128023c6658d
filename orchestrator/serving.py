"""Serves an ASGI application on this machine until a signal comes. Needs the extra `hub`: starlette and uvicorn."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from importlib.util import find_spec
from typing import Any, Protocol

import anyio
import attrs

from store.errors import UsageError

SHUTDOWN_S = 5
"""How long open connections may take to close after everything that ran was given up."""
BACKLOG = 128


class StoppableApplication(Protocol):
    """An ASGI application that can give up what it is doing."""

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request."""

    def stop_deciding(self) -> None:
        """Give up whatever runs, and start nothing more."""


@attrs.frozen(kw_only=True)
class Listener:
    """A socket that listens, and what it is reached by."""

    socket: socket.socket
    host: str
    port: int

    def url_of(self, path: str) -> str:
        """Where *path* is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{path}"


def require_server() -> None:
    """Make sure that there is something to serve with.

    Raises:
        UsageError: the extra is not installed.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"hub serve needs {' and '.join(missing)}", "Install them, in the checkout: pip install '.[hub]'"
        )


def open_listener(host: str, port: int) -> Listener:
    """Listen on *host*, an address of this machine that no other can reach; port 0 takes one that is free.

    Raises:
        UsageError: the address is no loopback address, or cannot be had.
    """
    address = "127.0.0.1" if host.lower() == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(
            f"--host {host}: expected a loopback address",
            "The hub has no passwords, so it answers this machine alone: 127.0.0.1, ::1 or localhost.",
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as opened:
        try:
            # named, so that asyncio knows the connections for TCP and does not hold back their second piece
            listener = opened.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(BACKLOG)
        except OSError as error:
            hint = "Give another --port; 0 takes one that is free."
            raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror or error}", hint) from error
        opened.pop_all()
    listener.setblocking(False)
    return Listener(socket=listener, host=address, port=int(listener.getsockname()[1]))


async def serve_hub(application: StoppableApplication, listener: Listener, ready: Callable[[], None]) -> signal.Signals:
    """Answer until SIGINT, SIGTERM or SIGHUP comes; which it was. What runs then is given up.

    *ready* is called when connections are answered. Call it on the main thread.
    """
    import uvicorn

    class Server(uvicorn.Server):
        """One that leaves signals to us, and says when it is there."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    server = Server(
        uvicorn.Config(
            application,
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            log_level="error",
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
    )
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup, where it stays ignored
        numbers.append(signal.SIGHUP)
    received: list[signal.Signals] = []

    async def watch_signals(signals: AsyncIterator[signal.Signals]) -> None:
        async for number in signals:
            server.force_exit = bool(received)
            received.append(number)
            application.stop_deciding()
            server.should_exit = True

    with anyio.open_signal_receiver(*numbers) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(watch_signals, signals)
            await server.serve([listener.socket])
            group.cancel_scope.cancel()
    return received[0]
