from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import StoreError
from store.sql.blobs import get_blob, put_blob
from store.sql.database import split_statements
from store.sql.statements import load_migrations


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(memory()) as connection:
        yield connection


def memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for text in load_migrations()[1]:
        for statement in split_statements(text):
            connection.execute(statement)
    return connection


@given(data=st.one_of(st.binary(max_size=2000), st.text().map(lambda text: text.encode("utf-8", "surrogatepass") * 50)))
def test_what_is_put_in_comes_out(data: bytes) -> None:
    with closing(memory()) as connection:
        assert get_blob(connection, put_blob(connection, data)) == data


def test_same_content_is_stored_once(connection: sqlite3.Connection) -> None:
    first = put_blob(connection, b"x" * 1000)
    assert put_blob(connection, b"x" * 1000) == first
    assert put_blob(connection, b"x" * 1001) != first
    assert connection.execute("SELECT count(*) FROM blob").fetchone() == (2,)


def test_only_what_gets_smaller_is_compressed(connection: sqlite3.Connection) -> None:
    put_blob(connection, b"abc" * 1000)
    put_blob(connection, os.urandom(3000))
    put_blob(connection, b"short")
    rows = connection.execute("SELECT codec, size, length(data) FROM blob ORDER BY id").fetchall()
    assert [row[0] for row in rows] == ["zlib", "raw", "raw"]
    assert rows[0][1] == 3000
    assert rows[0][2] < 100


def test_blob_goes_only_after_it_was_declared_forgotten_and_its_id_never_returns(
    connection: sqlite3.Connection,
) -> None:
    blob_id = put_blob(connection, b"secret")
    with pytest.raises(sqlite3.IntegrityError, match="only after a row in forgotten"):
        connection.execute("DELETE FROM blob WHERE id = ?", (blob_id,))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("UPDATE blob SET data = x'00' WHERE id = ?", (blob_id,))
    connection.execute("INSERT INTO forgotten SELECT id, hash, 'me', 'asked to', 1 FROM blob WHERE id = ?", (blob_id,))
    connection.execute("DELETE FROM blob WHERE id = ?", (blob_id,))
    assert get_blob(connection, blob_id) is None
    assert put_blob(connection, b"secret") > blob_id


def test_damaged_blob_is_told(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO blob (hash, size, codec, data) VALUES (x'01', 5, 'zlib', x'0000')")
    connection.execute("INSERT INTO blob (hash, size, codec, data) VALUES (x'02', 5, 'raw', x'0000')")
    for blob_id in (1, 2):
        with pytest.raises(StoreError, match=f"blob {blob_id} is damaged"):
            get_blob(connection, blob_id)
