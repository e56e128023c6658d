"""The request of the verb `resume`, as each kind of sweep gets it: the stored sweep and the flags."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

import attrs

from orchestrator.engine.caps import refuse_unknown_costs, select_prices

if TYPE_CHECKING:
    from orchestrator.engine.kind import Terms
    from orchestrator.world import World
    from providers.prices.table import Prices
    from store.events import Json
    from store.records import WorkerAccount
    from store.rows import Caps, SweepRow

TermsT = TypeVar("TermsT", bound="Terms")


@attrs.frozen(kw_only=True)
class ResumeRequest:
    """A stored sweep to finish, and the flags given for it."""

    sweep: SweepRow
    world: World
    caps: Caps
    """In force now."""
    new_caps: Mapping[str, int]
    """New totals from flags, by field of `Caps`."""
    prices: Prices
    """In force now."""
    new_prices: Prices
    accounts: tuple[WorkerAccount, ...]
    """Spending of the sweep's processes so far."""
    changes: Mapping[str, Json]
    """Other settings from flags, by field."""
    rerun_errors: bool
    """True: also run again what ended in an infrastructure error."""
    rerun_cancelled: bool
    """True: also run what was cancelled."""

    def refuse_uncounted_cost(self) -> None:
        """Refuse a first cap in USD if the sweep already made calls of unknown cost.

        Raises:
            UsageError: it made such calls.
        """
        if self.caps.nusd is None and "nusd" in self.new_caps:
            refuse_unknown_costs(self.accounts)

    def apply_to(self, planned: TermsT, *, models: Collection[str] | None = None) -> tuple[TermsT, bool]:
        """Apply the flags to the *planned* settings.

        Args:
            planned: as stored with the sweep.
            models: those whose prices count; None keeps the prices of all.

        Returns:
            The settings to resume with, and whether their caps or prices are new.

        Raises:
            UsageError: there is a cap in USD and one of *models* has no price.
        """
        caps = attrs.evolve(self.caps, **self.new_caps)
        known = {**self.prices, **self.new_prices}
        prices = known if models is None else select_prices(caps, models, known)
        settings = attrs.evolve(planned, caps=caps, prices=prices, **self.changes)
        return settings, (caps, prices) != (self.caps, self.prices)
