"""A provider around another one: what recorders of traffic share. They override `answer` alone."""

from __future__ import annotations

import attrs

from providers.base import Answer, Emit, Provider, Request, quirks_of


@attrs.frozen
class InheritedQuirks:
    """The quirks of a provider that another one wraps."""

    inner: Provider

    def names(self) -> tuple[str, ...]:
        """See `providers.base.Adaptations`; in alphabetical order."""
        return tuple(sorted(quirks_of(self.inner)))


class ProviderWrapper:
    """Passes everything on to an inner provider; implements `providers.base.Provider`.

    Args:
        inner: the provider that answers.
    """

    def __init__(self, inner: Provider) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The inner provider's name."""
        return self._inner.name

    @property
    def account(self) -> str:
        """The inner provider's account."""
        return self._inner.account

    @property
    def quirks(self) -> InheritedQuirks:
        """The inner provider's adaptations; none if it does not adapt."""
        return InheritedQuirks(self._inner)

    def size(self, request: Request) -> int:
        """The size according to the inner provider."""
        return self._inner.size(request)

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask the inner provider.

        Raises:
            ProviderError: the inner provider's error.
        """
        return await self._inner.answer(request, emit)

    async def aclose(self) -> None:
        """Close the inner provider."""
        await self._inner.aclose()
