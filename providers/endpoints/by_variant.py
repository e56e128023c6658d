"""One endpoint, opened once for each variant whose settings of the connection differ.

How long an endpoint may stay silent is measured configuration, so that variants may compare it; the provider is told
it when it is opened.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from providers.base import Answer, Emit, Provider, Request, quirks_of


@attrs.frozen(kw_only=True)
class Learnt:
    """What any of the openings has adapted to."""

    among: tuple[Provider, ...]

    def names(self) -> tuple[str, ...]:
        """See `providers.base.Quirks`."""
        return tuple(sorted({name for provider in self.among for name in quirks_of(provider)}))


class ByVariant:
    """Hands each request to the opening of its variant. They are one account: what one may not, none may."""

    def __init__(self, usual: Provider, apart: Mapping[str, Provider]) -> None:
        """Ask *usual*, except for the variants in *apart*, by id."""
        self._usual = usual
        self._apart = apart
        self._all = (usual, *apart.values())

    @property
    def name(self) -> str:
        """See `providers.base.Provider`."""
        return self._usual.name

    @property
    def account(self) -> str:
        """See `providers.base.Provider`."""
        return self._usual.account

    @property
    def quirks(self) -> Learnt:
        """See `providers.base.Adaptive`."""
        return Learnt(among=self._all)

    def size(self, request: Request) -> int:
        """See `providers.base.Provider`."""
        return self._of(request).size(request)

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """See `providers.base.Provider`.

        Raises:
            ProviderError: no whole answer came.
        """
        return await self._of(request).answer(request, emit)

    async def aclose(self) -> None:
        """Release the connections of all of them."""
        for provider in self._all:
            await provider.aclose()

    def _of(self, request: Request) -> Provider:
        return self._apart.get(request.origin.variant, self._usual)
