"""No planted credential is found anywhere afterwards: not in the store's bytes, not in a file, not in any output.

The values are made up for this test; each is planted as it is and in the encodings that models and tools like.
"""

import contextlib
import json
import sqlite3
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import anyio.to_thread
import pytest

from tests.e2e.conftest import MakeSuite, tiny
from tests.peers.driver import Driver, Finished
from tests.providers.loopback import delta, serving

pytestmark = pytest.mark.anyio

KEY = "peer-credential/4f1c9b7a2d+8e~Q"
"""What the endpoint is asked with."""
OTHER = 'wäre "nicht" gut, 7Hq2/xK9&Zp=%41'
"""In a variable of the environment, with characters that every encoding writes in its own way."""
PASSWORD = "s3cr3t-dbPw-91xYv7"
"""In the URL of a variable that has no telling name."""
SHAPED = "sk-ant-api03-uV3xQ9dLk2RmT8wYb5NhJ7cP4sZ6gF1a"
"""In no variable: known by its look."""
WINDOW = 16
"""So many characters of a secret in a row are too many."""


def encodings(secret: str) -> list[str]:
    """The secret as it is and encoded, base64 also within something longer."""
    octets = secret.encode()
    return [
        secret,
        b64encode(octets).decode(),
        urlsafe_b64encode(octets).decode(),
        b64encode(b"user:" + octets).decode(),
        b64encode(b"token=" + octets + b"\n").decode(),
        quote(secret, safe=""),
        quote(secret, safe="").lower() if secret.isascii() and secret.islower() else quote(secret),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    ]


def planted() -> Iterator[str]:
    for secret in (KEY, OTHER, PASSWORD):
        yield from dict.fromkeys(encodings(secret))
    yield SHAPED


def windows(secret: str) -> Iterator[bytes]:
    """Every stretch of the secret and of its encodings that is long enough to give it away."""
    for form in dict.fromkeys([*encodings(secret)]):
        octets = form.encode()
        for at in range(max(1, len(octets) - WINDOW + 1)):
            yield octets[at : at + WINDOW]


def needles() -> set[bytes]:
    # What base64 makes of the text around a secret is none of it: only stretches that the secret alone decides.
    found = {window for secret in (KEY, PASSWORD, SHAPED) for window in windows(secret) if len(window) == WINDOW}
    around = {b64encode(text).decode().encode()[:WINDOW] for text in (b"user:xxxxxxxxxxxx", b"token=xxxxxxxxxxxx")}
    found -= around
    return found | {form.encode() for form in encodings(OTHER)} | {b'"nicht" gut, 7Hq2/xK9', b"7Hq2/xK9&Zp=%41"}


ALL = " | ".join(planted())


def say(*pieces: str, finish: str = "stop") -> list[Any]:
    return [*(delta(piece) for piece in pieces), delta("", finish)]


def split_at_every_place() -> list[str]:
    """Deltas that cut each secret in two, at one place after the other."""
    pieces = ["It is "]
    for secret in (KEY, OTHER, PASSWORD, SHAPED):
        for at in range(1, len(secret)):
            pieces += [secret[:at], secret[at:], " and "]
    return pieces


def call(number: int, name: str, **arguments: Any) -> Any:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": 0, "id": f"call:{number}:{SHAPED}", "type": "function", "function": function}


def turn(number: int, name: str, **arguments: Any) -> list[Any]:
    choice = {"index": 0, "delta": {"tool_calls": [call(number, name, **arguments)]}}
    return [{"choices": [choice]}, delta("", "tool_calls")]


ACTS = [
    turn(1, "write_file", path=f"{PASSWORD}.txt", content=f"{ALL}\n" * 40),
    turn(2, "write_file", path=f"{SHAPED}/{quote(KEY, safe='')}.bin", content=ALL + "\u0000\ud7ff"),
    turn(3, "bash", command="env; tr '\\0' '\\n' < /proc/$PPID/environ; cat *.txt; ls -R; cat *.txt >&2"),
    turn(4, "read_file", path=f"{PASSWORD}.txt"),
    turn(5, f"no such tool {SHAPED}", secret=ALL),
    say("I have done it: ", ALL),
]


async def endpoint(exchange: Any) -> None:
    """Echoes credentials in every place that an endpoint has."""
    messages = exchange.json["messages"]
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    headers = {"x_request_id": f"req:{SHAPED}:{PASSWORD}", "x_echo": exchange.headers.get("authorization")}
    turns = sum(message["role"] == "assistant" for message in messages)
    if "refuse" in prompt:
        body = {"error": {"message": f"This field is not allowed: {ALL}", "type": SHAPED, "code": PASSWORD}}
        await exchange.whole(json.dumps(body).encode(), status=400, **headers)
        return
    if "page" in prompt:
        page = f"<html><p>{KEY}</p><p>{OTHER}</p>{PASSWORD} {SHAPED}</html>".encode()
        await exchange.whole(page, status=403, content_type="text/html", **headers)
        return
    await exchange.head(**headers)
    if "break" in prompt:
        for piece in split_at_every_place():
            await exchange.event(delta(piece))
        await exchange.event({"error": {"message": ALL, "code": SHAPED}})
        await exchange.end()
        return
    documents = ACTS[min(turns, len(ACTS) - 1)] if "act" in prompt else say(*split_at_every_place())
    for document in documents:
        await exchange.event({"model": f"model/{SHAPED}", **document})
    await exchange.event(b"[DONE]")
    await exchange.end()


def blobs(store: Path) -> Iterator[bytes]:
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        for codec, data in connection.execute("SELECT codec, data FROM blob"):
            yield zlib.decompress(data) if codec == "zlib" else data


def columns(store: Path) -> Iterator[bytes]:
    """Every text of every table, whatever page its pieces lie on."""
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield "\n".join(str(value) for value in row if not isinstance(value, bytes)).encode()


def everything(evalctl: Driver, outputs: dict[str, Finished]) -> Iterator[tuple[str, bytes]]:
    for name, done in outputs.items():
        yield f"stdout of {name}", done.stdout.encode()
        yield f"stderr of {name}", done.stderr.encode()
    for file in evalctl.store.parent.rglob("*"):  # the store, its -wal, the reports, and their names
        yield f"name {file.name}", file.name.encode()
        if file.is_file():
            yield str(file), file.read_bytes()
    for number, blob in enumerate(blobs(evalctl.store)):
        yield f"blob {number}", blob
    for number, row in enumerate(columns(evalctl.store)):
        yield f"row {number}", row


async def test_no_planted_credential_is_anywhere_afterwards(evalctl: Driver, make_suite: MakeSuite) -> None:
    evalctl.environment |= {
        "PEER_API_KEY": KEY,
        "SOME_TOKEN": OTHER,
        "DATABASE": f"postgres://app:{PASSWORD}@db.internal/app",
    }
    prompts = {name: f"Now {name}. Remember {ALL}" for name in ("say", "act", "refuse", "page", "break")}
    check = f"printf '%s\\n' {json.dumps(SHAPED)} {json.dumps(PASSWORD)}; cat *.txt; cat *.txt >&2; exit 1"
    suite = make_suite(
        prompts,
        allow=["write", "process"],
        verifiers=[{"kind": "command", "id": "loud", "command": ["sh", "-c", check]}],
    )
    outputs: dict[str, Finished] = {}

    async def run(name: str, *arguments: str) -> Finished:
        outputs[name] = await anyio.to_thread.run_sync(partial(evalctl.run, *arguments))
        return outputs[name]

    async with serving(endpoint) as server:
        flags = ["--provider", "openai", "--model", "m", "--base-url", server.url, "--api-key-env", "PEER_API_KEY"]
        flags += ["--k", "1", "--allow-write", "--allow-process", "-v"]
        done = await run("run", *tiny(suite, *flags))
        assert done.code == 1, done.stderr  # two of the tasks meet errors
        assert any(KEY in headers.get("authorization", "") for _, headers, _ in server.requests)
        await run("run --json", "--json", "--log-format", "json", *tiny(suite, *flags))
    await run("show", "show", "last")
    await run("show --json", "--json", "show", "last")
    await run("status", "status", "last")
    await run("runs", "--json", "show", "last", "--runs")
    for position in range(1, len(prompts) + 1):
        shown = await run(f"show {position}", "show", f"last/{position}", "--full")
        assert shown.code == 0, shown.stderr
    await run("show --json of a run", "--json", "show", "last/1")

    assert evalctl.number("SELECT count(*) FROM outcome") == 2 * len(prompts)
    assert evalctl.number("SELECT count(*) FROM event WHERE kind = 'tool_completed'") >= 10
    looked_for = needles()
    found = {}
    for where, octets in everything(evalctl, outputs):
        for needle in looked_for:
            if needle in octets:
                found[where, needle.decode()] = octets[max(0, octets.find(needle) - 60) :][:140]
    assert not found
    marks = "\n".join(done.stdout for done in outputs.values())
    for mark in ("[redacted:PEER_API_KEY]", "[redacted:SOME_TOKEN]", "[redacted:DATABASE]", "[redacted:sk-key]"):
        assert mark in marks
