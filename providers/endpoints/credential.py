"""What JSON is posted with: a key that a header can carry, the headers, and the account that both make."""

from __future__ import annotations

import hashlib

from providers.system.http import shown
from store.errors import UsageError


def checked_key(key: str | None, *, called: str = "the API key") -> None:
    """Make sure that *key* can be sent; messages call it *called* and never show it.

    Raises:
        UsageError: it is empty, or no header can carry it.
    """
    if key is not None and not (key and key.isascii() and key.isprintable()):
        raise UsageError(
            f"{called} is empty or holds characters that no header can carry",
            "Look for a line break or a typographic quotation mark in the variable.",
        )


def bearer(key: str | None) -> dict[str, str]:
    """The header that carries the key; none without one."""
    return {"Authorization": f"Bearer {key}"} if key is not None else {}


def headers_of_posts(*, accept: str) -> dict[str, str]:
    """What every post of JSON says, whoever it goes to."""
    return {
        "Accept": accept,
        "Accept-Encoding": "gzip",
        "Content-Type": "application/json",
        "User-Agent": "evalctl",
    }


def account_of(url: str, key: str | None) -> str:
    """The endpoint and a digest of the key: what limits are counted against."""
    owner = hashlib.sha256(key.encode()).hexdigest()[:8] if key is not None else "nokey"
    return f"{shown(url)}#{owner}"
