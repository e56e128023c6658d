"""Loopback server: serves an ASGI application until a signal ends it. Needs the extra `hub`: starlette and uvicorn."""

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
"""Seconds that open connections may take to close after the running work was given up."""
BACKLOG = 128


class StoppableApplication(Protocol):
    """An ASGI application that can give up its running work."""

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request."""

    def stop_deciding(self) -> None:
        """Give up the running work and refuse more."""


@attrs.frozen(kw_only=True)
class Listener:
    """A listening socket and its address."""

    socket: socket.socket
    host: str
    port: int

    def url_of(self, path: str) -> str:
        """Return the URL of *path* on this server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{path}"


def require_server() -> None:
    """Check that the packages for serving are installed.

    Raises:
        UsageError: the extra is not installed.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"hub serve needs {' and '.join(missing)}", "Install them, in the checkout: pip install '.[hub]'"
        )


def open_listener(host: str, port: int) -> Listener:
    """Listen on the loopback address *host*; port 0 selects a free port.

    Raises:
        UsageError: *host* is not a loopback address, or the port cannot be used.
    """
    address = "127.0.0.1" if host.lower() == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(
            f"--host {host}: expected a loopback address",
            "The hub has no passwords, so it only accepts connections from this machine: 127.0.0.1, ::1 or localhost.",
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as opened:
        try:
            # with TCP by name, asyncio recognises the connections as TCP and does not delay their second packet
            listener = opened.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(BACKLOG)
        except OSError as error:
            hint = "Choose another --port; 0 selects a free one."
            raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror or error}", hint) from error
        opened.pop_all()
    listener.setblocking(False)
    return Listener(socket=listener, host=address, port=int(listener.getsockname()[1]))


async def serve_hub(application: StoppableApplication, listener: Listener, ready: Callable[[], None]) -> signal.Signals:
    """Serve until SIGINT, SIGTERM or SIGHUP, give up the running work, and return the signal.

    *ready* is called once connections are accepted. Call this function on the main thread.
    """
    import uvicorn  # noqa: PLC0415 - an optional dependency; see `require_server`

    class Server(uvicorn.Server):
        """A server without signal handlers of its own, which reports that it is ready."""

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
