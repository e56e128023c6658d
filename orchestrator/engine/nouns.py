"""The nouns of a kind of sweep: plain words that a kind hands to the engine and to reports."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class KindNouns:
    """How one kind of sweep names its parts in messages."""

    subject: str
    """The directory of files under test, such as `suite`."""
    case: str
    """One thing that is repeated, such as `task`."""
    variant: str
    """One of the compared configurations, such as `variant`."""
    verb: str | None = None
    """The verb that starts a new sweep; None stands for the command that started the stored one."""
    changed_hint: str = ""
    """A further sentence for a subject that has changed since the sweep was planned."""
