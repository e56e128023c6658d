"""Whoever measures requests imports what they need before the first."""

import subprocess
import sys

FIRST = """
import asyncio, sys
from providers.system.http import HttpPool, preload_http_client

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n{}")
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    preload_http_client()
    before = set(sys.modules)
    pool = HttpPool()
    async with pool.post(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", {}, b"{}") as response:
        print(response.status, sorted(set(sys.modules) - before))
    await pool.aclose()
    server.close()

asyncio.run(main())
"""


def test_the_first_request_imports_nothing_more_where_somebody_was_ready() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=False, timeout=60)

    assert done.stdout == "200 []\n", done.stderr
