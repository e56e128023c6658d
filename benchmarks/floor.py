"""The floor: the least a runner of this kind can do with the same parts, and nothing else.

    python -m benchmarks.floor --store FILE --runs N --concurrency C [--url URL]

An anyio worker pool pulls from an iterator, asks the endpoint through httpx sharded into clients of at most ten
connections (or answers itself without `--url`), and hands four events a run to one writer that commits in batches.
No workspaces, no verifiers, no claims, no retries. What evalctl costs beyond it is the price of its promises.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx  # noqa: TID251 - the floor speaks HTTP by itself

SHARD = 10
BATCH = 1000
LINGER_S = 0.02

SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE event (run INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
  PRIMARY KEY (run, seq)) STRICT, WITHOUT ROWID;
"""

Row = tuple[int, int, str, str]


class Outbox:
    """Rows on their way to the writer: appended without waiting, taken in batches."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.filled = anyio.Event()
        self.closed = False

    def put(self, *rows: Row) -> None:
        self.rows += rows
        self.filled.set()

    def close(self) -> None:
        self.closed = True
        self.filled.set()

    async def write(self, connection: sqlite3.Connection) -> None:
        """Commit what has been handed over, in batches, until closed and empty."""
        while self.rows or not self.closed:
            await self.filled.wait()
            if len(self.rows) < BATCH and not self.closed:
                await anyio.sleep(LINGER_S)
            batch, self.rows = self.rows, []
            self.filled = anyio.Event()
            if batch:
                await anyio.to_thread.run_sync(commit, connection, batch)
            if self.rows or self.closed:
                self.filled.set()


def commit(connection: sqlite3.Connection, batch: list[Row]) -> None:
    with connection:
        connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?)", batch)


async def ask(client: httpx.AsyncClient | None, url: str, run: int) -> str:
    """One answer: streamed from the endpoint, or a text of its own."""
    if client is None:
        await anyio.lowlevel.checkpoint()
        return "It is done as asked."
    body = {
        "model": "floor",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Say that it is done."}],
    }
    text = []
    async with client.stream(
        "POST", f"{url}/chat/completions", json=body, headers={"Idempotency-Key": f"floor/{run}/1/1"}
    ) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                if choices:
                    text.append(choices[0]["delta"].get("content") or "")
    return "".join(text)


async def work(client: httpx.AsyncClient | None, url: str, runs: Iterator[int], outbox: Outbox) -> None:
    for run in runs:
        outbox.put(
            (run, 0, "work_started", json.dumps({"prompt": "Say that it is done."})),
            (run, 1, "call_sent", json.dumps({"request": 1, "model": "floor"})),
        )
        text = await ask(client, url, run)
        outbox.put(
            (run, 2, "text", json.dumps({"request": 1, "text": text})),
            (run, 3, "outcome", json.dumps({"outcome": "pass", "composite": 1.0})),
        )


async def floor(*, store: Path, runs: int, concurrency: int, url: str | None) -> None:
    connection = sqlite3.connect(store, check_same_thread=False)
    connection.executescript(SCHEMA)
    shards = -(-concurrency // SHARD) if url else 0
    limits = httpx.Limits(max_connections=SHARD, max_keepalive_connections=SHARD)
    clients = [httpx.AsyncClient(limits=limits, timeout=60, verify=False, trust_env=False) for _ in range(shards)]
    outbox = Outbox()
    waiting = iter(range(runs))
    async with anyio.create_task_group() as writing:
        writing.start_soon(outbox.write, connection)
        async with anyio.create_task_group() as workers:
            for worker in range(concurrency):
                client = clients[worker % shards] if shards else None
                workers.start_soon(work, client, url or "", waiting, outbox)
        outbox.close()
    for client in clients:
        await client.aclose()
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--url")
    options = parser.parse_args()
    anyio.run(lambda: floor(**vars(options)))


if __name__ == "__main__":
    main()
