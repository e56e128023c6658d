"""Opens the providers of decision flows (backends and specialists) from a daemon configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from providers.base import Provider
from providers.decisions.model import AskingNode, Capability, DaemonConfig, ExecNode, ModelNode
from providers.registry import ProviderOptions, find_provider
from store.errors import UsageError

KeyLookup = Callable[[str | None, str], tuple[str | None, str | None]]
"""Finds a credential: (variable named in the configuration or None, kind of the backend or `http`) -> (variable,
credential), each None if no credential is sent.
"""


@attrs.frozen(kw_only=True)
class _OpenOptions:
    """Common options of all backends and specialists; see `open_providers`."""

    key_of: KeyLookup
    base: Path
    idle_timeout_ms: int | None
    proxy: str | None = attrs.field(repr=False)
    wall: Callable[[], int] | None
    keep_bodies: bool


def open_providers(
    daemon: DaemonConfig,
    capabilities: Iterable[Capability],
    *,
    key_of: KeyLookup,
    base: Path,
    idle_timeout_ms: int | None = None,
    proxy: str | None = None,
    wall: Callable[[], int] | None = None,
    keep_bodies: bool = False,
) -> dict[str, Provider]:
    """Open every provider that *capabilities* may call, by the names of `Capability.find_provider_name`.

    Connections are opened, and processes started, with the first request.

    Args:
        daemon: the configuration with the backends.
        capabilities: the flows with the calling nodes.
        key_of: see `KeyLookup`.
        base: the configuration's directory as an absolute path; commands and scripts are relative to it.
        idle_timeout_ms: timeout between two pieces of a model's answer; None: only its nodes' timeouts apply.
        proxy: `http://host:port`; may contain credentials.
        wall: wall clock in microseconds since 1970 UTC, for Retry-After headers with a date.
        keep_bodies: see `ProviderOptions`.

    Raises:
        UsageError: a backend is not defined, has an unknown kind or invalid options, or a named credential is not
            set.
    """
    opening = _OpenOptions(
        key_of=key_of, base=base, idle_timeout_ms=idle_timeout_ms, proxy=proxy, wall=wall, keep_bodies=keep_bodies
    )
    asked: dict[str, list[AskingNode]] = {}
    for capability in capabilities:
        for node in capability.list_asking_nodes():
            asked.setdefault(capability.find_provider_name(node), []).append(node)
    return {name: _open_provider(daemon, name, nodes, opening) for name, nodes in asked.items()}


def _open_provider(daemon: DaemonConfig, name: str, nodes: list[AskingNode], opening: _OpenOptions) -> Provider:
    node = nodes[0]
    if isinstance(node, ModelNode):
        return _open_backend(daemon, node, max(asking.timeout_ms for asking in nodes), opening)
    from providers.decisions.specialists import ExecSpecialist, HttpSpecialist  # noqa: PLC0415 - start-up: only specialists need it

    if isinstance(node, ExecNode):
        return ExecSpecialist(node, name=name, base=opening.base)
    from providers.system.http import HttpPool  # noqa: PLC0415 - start-up: only an HTTP specialist needs it

    return HttpSpecialist(
        name=name,
        url=node.url,
        api_key=opening.key_of(node.api_key_env, node.kind)[1],
        pool=HttpPool(proxy=opening.proxy),
        wall=opening.wall,
    )


def _open_backend(daemon: DaemonConfig, node: ModelNode, longest_ms: int, opening: _OpenOptions) -> Provider:
    backend = daemon.backends.get(node.backend)
    if backend is None:
        known = ", ".join(sorted(daemon.backends)) or "none"
        raise UsageError(
            f"node {node.id!r} names the backend {node.backend!r}, which is not defined", f"Defined backends: {known}."
        )
    variable, key = opening.key_of(backend.api_key_env, backend.kind)
    options = ProviderOptions(
        model=node.model,
        base_url=backend.base_url,
        api_key=key,
        api_key_env=variable,
        suite_root=opening.base,
        # a node's own timeout limits its answer, so these must not be shorter
        first_token_timeout_ms=longest_ms + 1000,
        idle_timeout_ms=longest_ms + 1000 if opening.idle_timeout_ms is None else opening.idle_timeout_ms,
        token_idle_timeout_ms=longest_ms + 1000 if opening.idle_timeout_ms is None else opening.idle_timeout_ms,
        proxy=opening.proxy,
        wall=opening.wall,
        keep_bodies=opening.keep_bodies,
    )
    return find_provider(backend.kind)(options)
