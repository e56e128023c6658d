"""The verb `hub serve`: decisions over HTTP, for programs of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, print_data, print_json

if TYPE_CHECKING:
    from orchestrator.serving import Listener
    from orchestrator.world import World
    from providers.decisions.decision import Decision
    from providers.decisions.model import DaemonConfig

DEFAULT_PORT = 8740


def serve(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The daemon configuration.")],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="The port; 0 takes a free one.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="127.0.0.1, ::1 or another loopback address.")
    ] = "127.0.0.1",
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=1024, metavar="N", help="Decisions in flight at once.")
    ] = 8,
) -> None:
    """Answer POST /v1/hub with {"capability": NAME, "input": ...} on this machine, until a signal ends it.

    The answer is the decision that a lab would make on the same input: the same flow, rules and specialists. Nothing is
    stored, and there is no budget. With --json it prints its address as one line. Needs the extra `hub`.
    """
    from orchestrator.serving import require_server

    require_server()
    raise typer.Exit(_serve_until_signal(config, host=host, port=port, concurrency=concurrency))


def _serve_until_signal(config: Path, *, host: str, port: int, concurrency: int) -> int:
    """Serve until a signal comes; return the exit code."""
    from functools import partial

    import anyio

    from orchestrator.cli.sweep_setup import signal_exit_code
    from orchestrator.lab.formats.daemon_yaml import read_daemon
    from orchestrator.serving import open_listener
    from orchestrator.world import hide_environment, real_world

    world = real_world()
    config = config.resolve()
    daemon = read_daemon(config, path=world.environment.get("PATH", ""))
    hide_environment()
    listener = open_listener(host, port)
    with listener.socket:
        serving = partial(_open_hub, daemon, listener, config=config, world=world, concurrency=concurrency)
        return signal_exit_code(anyio.run(serving))


async def _open_hub(daemon: DaemonConfig, listener: Listener, *, config: Path, world: World, concurrency: int) -> int:
    from contextlib import AsyncExitStack

    from orchestrator.cli.sweep_setup import log_of
    from orchestrator.lab.hub.app import Hub
    from orchestrator.lab.running import list_credentials, make_key_lookup
    from orchestrator.serving import serve_hub
    from orchestrator.world import sweep_name
    from providers.decisions.backends import open_providers
    from store.secrets.redactor import Redactor, find_credentials

    used = list_credentials(daemon, daemon.capabilities.values(), world.environment)
    redactor = Redactor([*used, *find_credentials(world.environment)])
    log = log_of(redactor)

    def log_decision(capability: str, decision: Decision, took_s: float) -> None:
        log("hub.decided", capability=capability, status=decision.status, ms=round(took_s * 1000))

    async with AsyncExitStack() as stack:
        providers = open_providers(
            daemon,
            daemon.capabilities.values(),
            key_of=make_key_lookup(world.environment),
            base=config.parent,
            wall=world.wall,
        )
        for provider in providers.values():
            stack.push_async_callback(provider.aclose)
        hub = Hub(
            daemon,
            providers,
            name=sweep_name(world.wall()),
            concurrency=concurrency,
            names=frozenset([listener.host]),
            on_decision=log_decision,
            clean=redactor.redact_json,
        )
        return await serve_hub(hub, listener, lambda: _print_addresses(daemon, listener))


def _print_addresses(daemon: DaemonConfig, listener: Listener) -> None:
    """Print the address and the capabilities."""
    from orchestrator.lab.hub.app import PATH

    url, names = listener.url_of(PATH), list(daemon.capabilities)
    if COMMON.json:
        document = {"schema": "evalctl.hub-listening/1", "url": url, "host": listener.host, "port": listener.port}
        print_json({**document, "capabilities": names})
    else:
        print_data(f"POST {url} answers for {', '.join(names)}; Ctrl-C ends it")
