"""Exceptions that evalctl raises on purpose. Each holds data; `str()` makes the message for the user."""

from __future__ import annotations

from typing import Literal

import attrs


class EvalctlError(Exception):
    """Base class of every expected error. Any other exception is a bug and ends the process with a traceback."""


@attrs.define(slots=False)
class UsageError(EvalctlError):
    """An invalid request of the user; exit code 1."""

    problem: str
    """The problem, in one line, or one line for each problem of a file."""
    hint: str = ""
    """The suggested remedy; empty if there is none."""

    def __str__(self) -> str:
        return f"{self.problem}\n{self.hint}" if self.hint else self.problem


class StoreError(EvalctlError):
    """The store cannot carry out an operation."""


@attrs.define(slots=False)
class StoreRefused(StoreError):
    """The file cannot be used as a store: it is newer, foreign, not a database, or read-only."""

    path: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.problem}"
        return f"{text}\n{self.hint}" if self.hint else text


@attrs.define(slots=False)
class StoreFailed(StoreError):
    """The writer failed for good. Every later append of any producer raises this too."""

    path: str
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: writing failed: {self.cause}"


@attrs.define(slots=False)
class StoreStalled(StoreError):
    """Another process held the store's lock file for longer than `max_stall_s`."""

    path: str
    holder: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.path}: waited {self.seconds:.0f} s for {self.holder}"


@attrs.define(slots=False)
class CapExhausted(EvalctlError):
    """A spending cap of the sweep is exhausted: it does not cover this request, and nothing in flight will help."""

    cap: Literal["max-calls", "max-tokens", "max-cost-usd"]

    def __str__(self) -> str:
        return f"--{self.cap} leaves no room for the next request"
