"""The errors evalctl raises on purpose: data in, message out."""

from __future__ import annotations

from typing import Literal

import attrs


class EvalctlError(Exception):
    """Anything evalctl raises on purpose. Everything else is a bug and crashes loudly."""


@attrs.define(slots=False)
class UsageError(EvalctlError):
    """The user asked for something that cannot be done as asked; exit code 1."""

    problem: str
    """What is wrong, in one line or one line per finding."""
    hint: str = ""
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.problem}\n{self.hint}" if self.hint else self.problem


class StoreError(EvalctlError):
    """The store cannot do what was asked of it."""


@attrs.define(slots=False)
class StoreRefused(StoreError):
    """The file cannot serve as a store: newer, foreign, not a database, read-only."""

    path: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.problem}"
        return f"{text}\n{self.hint}" if self.hint else text


@attrs.define(slots=False)
class StoreFailed(StoreError):
    """The writer could not write; every producer learns it at its next append."""

    path: str
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: writing failed: {self.cause}"


@attrs.define(slots=False)
class StoreStalled(StoreError):
    """Another process has held the turnstile for longer than allowed."""

    path: str
    holder: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.path}: waited {self.seconds:.0f} s for {self.holder}"


@attrs.define(slots=False)
class BudgetSpent(EvalctlError):
    """A cap of the sweep leaves no room for this request, and nothing in flight will give some back."""

    cap: Literal["max-calls", "max-tokens", "max-cost-usd"]

    def __str__(self) -> str:
        return f"--{self.cap} leaves no room for the next request"
