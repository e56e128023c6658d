"""Credentials: environment variables that hold keys. Only their names are stored, never the values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from providers.registry import DEFAULT_KEY_VARIABLES
from store.errors import UsageError
from store.events import Json


def expect_variable(value: Json) -> str | None:
    """Check for the name of an environment variable; return the problem or None. It never shows the value, which may be
    a key.
    """
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", value):
        return None
    return "expected the name of an environment variable (the value is not shown because it may be a key)"


def resolve_key(
    variable: str | None, provider: str, environment: Mapping[str, str], *, named_by: str = "--api-key-env"
) -> tuple[str | None, str | None]:
    """Return the name of the variable that holds the provider's key, and the key; None and None to send no key.

    Args:
        variable: the name from a flag or a file. Without one, the provider's usual variable is used if it is set.
        provider: the provider's name.
        environment: the environment variables.
        named_by: the flag or field that names the variable, for messages.

    Raises:
        UsageError: the named variable is not set, or *variable* is not the name of a variable (it is not shown then).
    """
    if variable is None:
        usual = DEFAULT_KEY_VARIABLES.get(provider)
        return (usual, environment[usual]) if usual and environment.get(usual) else (None, None)
    problem = expect_variable(variable)
    if problem:
        raise UsageError(f"{named_by}: {problem}")
    if not environment.get(variable):
        # a key of letters only looks like a name; no usual name of a variable is that long in lower case
        name = variable if variable.isupper() or len(variable) <= 20 else "given by --api-key-env or apiKeyEnv"
        raise UsageError(
            f"the environment variable {name} is not set",
            f"Set it to the key of {provider}, or name another with {named_by}.",
        )
    return variable, environment[variable]
