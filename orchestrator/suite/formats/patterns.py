"""Regular expressions of a suite: which of them are safe to run on a model's text."""

from __future__ import annotations

import re
import warnings

MAX_PATTERN = 1000

_TOKEN = re.compile(
    r"""
      \\.                                  # an escape
    | \[\^?\]?(?:\\.|[^\]\\])*\]           # a character class
    | (?P<open>\((?:\?(?:P<\w+>|[:=!>]|<[=!]|[aiLmsux-]*:)?)?)
    | (?P<close>\))
    | (?P<many>[*+]|\{[0-9]*,\})           # no upper bound
    | (?P<few>\?|\{[0-9]*(?:,[0-9]+)?\})   # bounded, or the `?` that makes the quantifier before it lazy
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def find_pattern_fault(pattern: str) -> str | None:
    """Return why a pattern is refused, or None.

    Refused are patterns that `re` cannot compile, patterns that match the empty text (they would match everywhere), and
    patterns with an unbounded quantifier inside a group that is itself repeated without a bound, because their time can
    grow exponentially.
    """
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has more than {MAX_PATTERN} characters"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # "possible nested set" will change its meaning
            compiled = re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        return f"not a regular expression: {error}"
    if _nests_unbounded(pattern):
        return "an unbounded quantifier inside an unbounded one, such as (a+)+, can take exponential time"
    if compiled.fullmatch(""):
        return "it matches the empty text, so it would match everywhere"
    return None


def _nests_unbounded(pattern: str) -> bool:
    """Return whether a group that contains `*`, `+` or `{n,}` is itself repeated by one of them. *pattern* compiles."""
    holding = [False]  # for each open group: does it contain an unbounded quantifier?
    closed = False  # does the group that was just closed contain one?
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            holding.append(False)
            closed = False
        elif token["close"]:
            closed = holding.pop()
            holding[-1] = holding[-1] or closed
        elif token["many"]:
            if closed:
                return True
            holding[-1] = True
        else:
            closed = False
    return False
