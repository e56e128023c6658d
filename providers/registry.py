"""Registry of providers: finds a provider's factory by its name.

A built-in provider is one line of `BUILT_IN_PROVIDERS`. A third-party provider is an entry point of the group
`evalctl.providers` that names a factory with the attribute `api_version`; its package is imported only when the
provider is used.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import attrs

from providers.base import PROVIDER_API, Provider
from store.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "evalctl.providers"

BUILT_IN_PROVIDERS: Mapping[str, str] = {
    "anthropic": "providers.endpoints.anthropic:open_provider",
    "ollama": "providers.endpoints.ollama:open_provider",
    "openai": "providers.endpoints.openai:open_provider",
    "openai-responses": "providers.endpoints.responses:open_provider",
    "scripted": "providers.scripted.scripted:open_provider",
    "typesafe": "providers.endpoints.typesafe:open_provider",
}
"""Name -> `module:factory`, imported on first use."""

DEFAULT_KEY_VARIABLES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "ollama": "OLLAMA_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "typesafe": "TYPESAFE_API_KEY",
}
"""Name -> environment variable that usually holds the key. Its reader is the caller: providers read no environment."""


@attrs.frozen(kw_only=True)
class ProviderOptions:
    """Options for opening a provider; each factory uses those it needs."""

    model: str = ""
    base_url: str | None = None
    api_key: str | None = attrs.field(default=None, repr=False)
    api_key_env: str | None = None
    """Environment variable that held the key, for messages, which must not show the key."""
    suite_root: Path | None = None
    first_token_timeout_ms: int = 90_000
    """Timeout for the first byte of an answer, in milliseconds, for requests that set none."""
    idle_timeout_ms: int = 60_000
    """Timeout between two pieces of an answer, in milliseconds."""
    token_idle_timeout_ms: int = 600_000
    """Timeout between two signs of the model's work, in milliseconds. Keep-alives are none."""
    proxy: str | None = attrs.field(default=None, repr=False)
    """`http://host:port`; may hold credentials."""
    wall: Callable[[], int] | None = None
    """Wall clock in microseconds since 1970 UTC, for Retry-After headers with a date."""
    keep_bodies: bool = False
    """True if an endpoint also emits each raw body, for recording."""


class ProviderFactory(Protocol):
    """Opens a provider. A third-party factory also has the attribute `api_version`."""

    def __call__(self, options: ProviderOptions, /) -> Provider:
        """Open the provider; it connects with its first request.

        Raises:
            UsageError: the options are invalid.
        """


def find_provider(name: str) -> ProviderFactory:
    """Find the factory of the provider *name*: a built-in one, else an entry point of `evalctl.providers`.

    Raises:
        UsageError: no such provider exists, it cannot be loaded, or it is written for another version of the port.
    """
    if name in BUILT_IN_PROVIDERS:
        module, _, attribute = BUILT_IN_PROVIDERS[name].partition(":")
        return cast("ProviderFactory", getattr(import_module(module), attribute))
    points = _find_entry_points()
    if name in points:
        return _load_factory(name, points[name])
    known = list_provider_names()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"there is no provider {name!r}", f"{hint}There are: {', '.join(known)}.")


def list_provider_names() -> list[str]:
    """All names that `find_provider` knows, including providers that cannot be loaded."""
    return sorted({*BUILT_IN_PROVIDERS, *_find_entry_points()})


def _find_entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - start-up: only a provider of another package needs it

    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _load_factory(name: str, point: EntryPoint) -> ProviderFactory:
    origin = f"provider {name!r} ({point.value})"
    try:
        factory = point.load()
    except Exception as error:  # the boundary to third-party code, which may raise anything
        raise UsageError(f"{origin} cannot be loaded: {type(error).__name__}: {error}") from error
    version = getattr(factory, "api_version", None)
    if version != PROVIDER_API or not callable(factory):
        raise UsageError(
            f"{origin} is written for version {version} of the provider port, this evalctl has {PROVIDER_API}",
            "Install versions of evalctl and of the provider that match.",
        )
    return cast("ProviderFactory", factory)
