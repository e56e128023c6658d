"""Regular expressions that a suite brings along: which ones we are willing to run over a model's text."""

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
    """What keeps a pattern from being used, or None.

    Refused: what `re` cannot compile, what matches the empty text (it would match everywhere), and an unbounded
    quantifier inside a group that is itself repeated without a bound, whose time can grow exponentially.
    """
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has more than {MAX_PATTERN} characters"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # "possible nested set" means another thing tomorrow
            compiled = re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        return f"not a regular expression: {error}"
    if _nests_unbounded(pattern):
        return "an unbounded quantifier inside an unbounded one, such as (a+)+, can take exponential time"
    if compiled.fullmatch(""):
        return "it matches the empty text, so it would match everywhere"
    return None


def _nests_unbounded(pattern: str) -> bool:
    """Whether a group that holds `*`, `+` or `{n,}` is itself under one of them. *pattern* compiles."""
    holding = [False]  # per open group: does it hold an unbounded quantifier?
    closed = False  # what the group that has just been closed held
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
