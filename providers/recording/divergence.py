"""How a replay fails: the harness asked something else than was recorded, or nothing was recorded at all."""

from __future__ import annotations

import attrs

from providers.errors import ProviderError
from providers.recording.material import Difference
from store.errors import EvalctlError
from store.events import Json


@attrs.frozen(kw_only=True)
class Divergence:
    """Where a replay left its recording."""

    task: str
    call: int
    """Counts from 1."""
    field: str
    recorded: str
    asked: str

    def to_json(self) -> dict[str, Json]:
        """As the outcome's detail and the record of the run keep it."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        return (
            f"task {self.task}, call {self.call}: {self.field}\n  recorded: {self.recorded}\n  asked:    {self.asked}"
        )


@attrs.define(slots=False, kw_only=True)
class ReplayDiverged(ProviderError):
    """The harness and the recording do not agree. A `ProviderError`, so that the gate records the call as one that was
    not answered; never retryable, and no kind that a model is blamed for.
    """

    divergence: Divergence

    def __str__(self) -> str:
        return str(self.divergence)


@attrs.define(slots=False)
class NotRecorded(EvalctlError):
    """There is no recording to replay a task from; its runs end as `skipped(no_cassette)`."""

    task: str
    why: str

    def __str__(self) -> str:
        return f"task {self.task}: not recorded: {self.why}"


def differs(task: str, call: int, difference: Difference) -> ReplayDiverged:
    """A request differs from the recorded one."""
    return _diverged(
        Divergence(
            task=task,
            call=call,
            field=difference.field,
            recorded=difference.recorded,
            asked=difference.asked,
        )
    )


def miscounted(task: str, *, recorded: int, made: int) -> ReplayDiverged:
    """Calls were left over, or there was one too many."""
    return _diverged(
        Divergence(
            task=task,
            call=min(recorded, made) + 1,
            field="calls",
            recorded=f"{recorded} calls",
            asked=f"{made} calls, and no more" if made < recorded else f"a call more, its number {made}",
        )
    )


def _diverged(divergence: Divergence) -> ReplayDiverged:
    return ReplayDiverged(
        kind="invalid_request", message="it is not what was recorded", retryable=False, divergence=divergence
    )
