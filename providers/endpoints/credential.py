"""API keys: validation, the headers of JSON requests, and the account that limits are counted against."""

from __future__ import annotations

import hashlib

from providers.system.http import render_url
from store.errors import UsageError


def check_key(key: str | None, *, called: str = "the API key") -> None:
    """Validate an API key; messages call it *called* and never show it.

    Raises:
        UsageError: it is empty, or an HTTP header cannot contain it.
    """
    if key is not None and not (key and key.isascii() and key.isprintable()):
        raise UsageError(
            f"{called} is empty or contains characters that an HTTP header cannot contain",
            "Look for a line break or a typographic quotation mark in the variable.",
        )


def build_bearer_header(key: str | None) -> dict[str, str]:
    """The Authorization header for the key; empty without a key."""
    return {"Authorization": f"Bearer {key}"} if key is not None else {}


def build_post_headers(*, accept: str) -> dict[str, str]:
    """The headers of every JSON POST request."""
    return {
        "Accept": accept,
        "Accept-Encoding": "gzip",
        "Content-Type": "application/json",
        "User-Agent": "evalctl",
    }


def derive_account(url: str, key: str | None) -> str:
    """The account for rate limits: the endpoint and a digest of the key."""
    owner = hashlib.sha256(key.encode()).hexdigest()[:8] if key is not None else "nokey"
    return f"{render_url(url)}#{owner}"
