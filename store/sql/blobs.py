"""Content-addressed blobs: equal texts and files are stored once, however many attempts refer to them.

The schema's triggers allow deleting a blob only after a row in `forgotten` names it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib

from store.errors import StoreError
from store.sql.statements import load_statement

MIN_COMPRESSED_BYTES = 256
"""Smallest size in bytes that is compressed; below it the saving is negligible."""
COMPRESSION_LEVEL = 1
"""Most of the saving on text, at a third of the time of the default level."""


def put_blob(connection: sqlite3.Connection, data: bytes) -> int:
    """Return the id of the blob with this content, inserting it if it is new. Runs in the caller's transaction."""
    key = hashlib.sha256(data).digest()
    found = connection.execute(load_statement("blob_by_hash"), (key,)).fetchone()
    if found:
        return int(found[0])
    codec, stored = "raw", data
    if len(data) >= MIN_COMPRESSED_BYTES:
        smaller = zlib.compress(data, COMPRESSION_LEVEL)
        if len(smaller) < len(data):
            codec, stored = "zlib", smaller
    cursor = connection.execute(load_statement("insert_blob"), (key, len(data), codec, stored))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def get_blob(connection: sqlite3.Connection, blob_id: int) -> bytes | None:
    """Return the content of a blob; None if it has been forgotten.

    Raises:
        StoreError: the stored bytes are damaged.
    """
    row = connection.execute(load_statement("blob_content"), (blob_id,)).fetchone()
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
