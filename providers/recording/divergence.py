"""Replay errors: the harness made another request than the recorded one, or there is no recording."""

from __future__ import annotations

import attrs

from providers.errors import ProviderError
from providers.recording.material import Difference
from store.errors import EvalctlError
from store.events import Json


@attrs.frozen(kw_only=True)
class Divergence:
    """The first difference between a replay and its recording."""

    task: str
    call: int
    """Number of the call, from 1."""
    field: str
    recorded: str
    asked: str

    def to_json(self) -> dict[str, Json]:
        """The form in the outcome's detail and in the record of the run."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        return (
            f"task {self.task}, call {self.call}: {self.field}\n  recorded: {self.recorded}\n  asked:    {self.asked}"
        )


@attrs.define(slots=False, kw_only=True)
class ReplayDiverged(ProviderError):
    """The harness and the recording differ.

    A `ProviderError`, so that the gate records the call as failed; never retryable, and of a kind that is not counted
    as the model's failure.
    """

    divergence: Divergence

    def __str__(self) -> str:
        return str(self.divergence)


@attrs.define(slots=False)
class NotRecorded(EvalctlError):
    """A task has no recording; its runs end as `skipped(no_cassette)`."""

    task: str
    why: str

    def __str__(self) -> str:
        return f"task {self.task}: not recorded: {self.why}"


def build_difference_error(task: str, call: int, difference: Difference) -> ReplayDiverged:
    """Build the error for a request that differs from the recorded one."""
    return _build_divergence_error(
        Divergence(
            task=task,
            call=call,
            field=difference.field,
            recorded=difference.recorded,
            asked=difference.asked,
        )
    )


def build_count_error(task: str, *, recorded: int, made: int) -> ReplayDiverged:
    """Build the error for a run with fewer or more calls than recorded."""
    return _build_divergence_error(
        Divergence(
            task=task,
            call=min(recorded, made) + 1,
            field="calls",
            recorded=f"{recorded} calls",
            asked=f"{made} calls" if made < recorded else f"one more call, number {made}",
        )
    )


def _build_divergence_error(divergence: Divergence) -> ReplayDiverged:
    return ReplayDiverged(
        kind="invalid_request", message="the run differs from its recording", retryable=False, divergence=divergence
    )
