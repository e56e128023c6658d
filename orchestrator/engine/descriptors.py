"""File descriptors: raises this process's limit, and lowers the number of runs in flight to what the limit allows."""

from __future__ import annotations

import errno
import resource
from contextlib import suppress

RESERVED_DESCRIPTORS = 40
"""Descriptors of the process itself: the store, the event loop, the terminal, modules that are being imported."""
DESCRIPTORS_PER_RUN = 6
"""Descriptors of one run at a time: a connection, the pipes of a program and of its watcher, a file."""


def fit_concurrency(wanted: int) -> tuple[int, int]:
    """Return how many runs may be in flight at once, at most *wanted*, and this process's limit of descriptors.

    Raises the limit first, as far as the system allows it without privileges.
    """
    needed = RESERVED_DESCRIPTORS + wanted * DESCRIPTORS_PER_RUN
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted, limit
    if limit < needed:
        raised = needed if most == resource.RLIM_INFINITY else min(needed, most)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
            limit = raised
    return min(wanted, max(1, (limit - RESERVED_DESCRIPTORS) // DESCRIPTORS_PER_RUN)), limit


def describe_exhaustion(error: Exception) -> str | None:
    """Describe *error* for the user if descriptors ran out; None for any other error.

    Of a group, every error has to be of this kind.
    """
    if isinstance(error, ExceptionGroup):
        described = [describe_exhaustion(one) for one in error.exceptions]
        return described[0] if all(described) else None
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENFILE:
        return "the system has no file descriptor left for this process"
    if number != errno.EMFILE:
        return None
    limit, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"no file descriptor is left (`ulimit -n` is {limit}): raise the limit, or lower --concurrency"
