"""Commands in a report's hints, as a person types them."""

from __future__ import annotations

from collections.abc import Callable

Typed = Callable[[str], str]
"""Makes a command line of a command's words: the program's name, and options that every command needs."""
TYPED: Typed = "evalctl {}".format
