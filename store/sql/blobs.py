"""Content-addressed text and files: stored once, however many attempts refer to it.

A blob may only be deleted after a row in `forgotten`; the schema's triggers see to that.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib

from store.errors import StoreError
from store.sql.statements import statement

WORTH_COMPRESSING = 256
"""Bytes; below, the saving is noise."""
LEVEL = 1
"""Fast: most of what compression saves on text, at a third of the cost of the default."""


def put_blob(connection: sqlite3.Connection, data: bytes) -> int:
    """The id of the blob with this content; inserted if there is none. Runs inside the caller's transaction."""
    key = hashlib.sha256(data).digest()
    found = connection.execute(statement("blob_by_hash"), (key,)).fetchone()
    if found:
        return int(found[0])
    codec, stored = "raw", data
    if len(data) >= WORTH_COMPRESSING:
        smaller = zlib.compress(data, LEVEL)
        if len(smaller) < len(data):
            codec, stored = "zlib", smaller
    cursor = connection.execute(statement("insert_blob"), (key, len(data), codec, stored))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def get_blob(connection: sqlite3.Connection, blob_id: int) -> bytes | None:
    """The content of a blob; None when it has been forgotten.

    Raises:
        StoreError: the stored bytes do not decode to what was put in.
    """
    row = connection.execute(statement("blob_content"), (blob_id,)).fetchone()
    if row is None:
        return None
    codec, data, size = row
    try:
        content = bytes(data) if codec == "raw" else zlib.decompress(data)
    except zlib.error as error:
        raise StoreError(f"blob {blob_id} is damaged: {error}") from error
    if len(content) != size:
        raise StoreError(f"blob {blob_id} is damaged: {len(content)} bytes instead of {size}")
    return content
