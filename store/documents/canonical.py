"""Canonical JSON (RFC 8785) and its SHA-256, for identities and fingerprints."""

from __future__ import annotations

import hashlib
from typing import Any

from store.errors import UsageError


def encode_canonical(value: Any) -> bytes:
    """Encode *value* as canonical JSON (RFC 8785).

    Raises:
        UsageError: canonical JSON cannot hold a value (NaN, an integer beyond 2**53, a lone surrogate).
    """
    import rfc8785  # noqa: PLC0415 - start-up: only identities need it

    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise UsageError(f"cannot be written as canonical JSON: {error}") from error


def compute_digest(value: Any) -> bytes:
    """Compute the SHA-256 of the canonical JSON of *value*: 32 bytes."""
    return hashlib.sha256(encode_canonical(value)).digest()
