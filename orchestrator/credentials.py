"""Credentials: the environment variables that hold keys, by name. Only names are stored, never values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.errors import UsageError
from store.events import Json


def expect_variable(value: Json) -> str | None:
    """Check for the name of an environment variable. The message never shows the value, which may be a key."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", value):
        return None
    return "expected the name of an environment variable (what was given is not shown: it may be a key)"


def resolve_key(
    variable: str | None, provider: str, environment: Mapping[str, str], *, named_by: str = "--api-key-env"
) -> tuple[str | None, str | None]:
    """The variable that holds the provider's key, and the key.

    *variable* is what a flag or a file names; messages say *named_by* for where another can be named. Without one, the
    provider's usual variable is used if it is set; else no key is sent.

    Raises:
        UsageError: the named variable is not set, or what was named is no variable's name (then it is not shown).
    """
    if variable is None:
        from providers.registry import DEFAULT_KEY_VARIABLES

        usual = DEFAULT_KEY_VARIABLES.get(provider)
        return (usual, environment[usual]) if usual and environment.get(usual) else (None, None)
    problem = expect_variable(variable)
    if problem:
        raise UsageError(f"{named_by}: {problem}")
    if not environment.get(variable):
        # a key of letters only looks like a name; names of variables that anybody uses are not that long in lower case
        shown = variable if variable.isupper() or len(variable) <= 20 else "given by --api-key-env or apiKeyEnv"
        raise UsageError(
            f"the environment variable {shown} is not set",
            f"Set it to the key of {provider}, or name another with {named_by}.",
        )
    return variable, environment[variable]
