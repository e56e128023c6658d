"""Text from models, tools and endpoints that wants to be more than text: it is kept as it came and shown harmlessly."""

import json
import os
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.e2e.conftest import MakeSuite, tiny
from tests.peers.driver import Driver, Finished
from tests.providers.loopback import delta, serving

pytestmark = pytest.mark.anyio

HOSTILE = (
    "begin \u0000 nul \ud835 lone \x1b[31mred\x1b[2J \x1b]0;title\x07 \x1b]8;;http://evil.example\x1b\\link\x1b]8;; "
    "\u202egnp.exe\u202c \ufffe \u2028 \x9b31m \r over \r\n<script>alert(1)</script></script> <img src=x onerror=y> "
    "| `code` *bold* _it_ [l](javascript:z) ~~s~~ $x$ 日本語 🙂 end"
)
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
LONG = 4_000_000


def assert_harmless(text: str, where: str) -> None:
    """Nothing that moves a cursor, hides, reorders or cannot be encoded."""
    bad = {letter for letter in set(text) if letter not in "\n\t" and unicodedata.category(letter) in HIDDEN}
    assert not bad, (where, [ascii(letter) for letter in bad])


def called(name: str, **arguments: Any) -> list[Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"index": 0, "id": f"call {HOSTILE}", "type": "function", "function": function}]
    return [{"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}, delta("", "tool_calls")]


SPOIL = r"""
printf 'nul \000 esc \033[31m \033]0;t\007 bidi \342\200\256 half \355\240\265 bad \377 <script> \r end\n' > out.txt
cat out.txt; cat out.txt >&2
touch "$(printf 'esc\033[31m\nline')" "$(printf 'bad\377')" "$(printf 'bidi\342\200\256')" '<script>' 'a|b`c`' ./-rf
"""
ACTS = [
    called("bash", command=SPOIL),
    called("list_files", path="."),
    called("write_file", path="file \x1b[31m <b>.txt", content=HOSTILE.replace("\ud835", "")),
    called("write_file", path=f"lone {HOSTILE}", content=HOSTILE),
    called(f"tool {HOSTILE}", argument=HOSTILE),
    [delta(HOSTILE), delta("", "stop")],
]


async def endpoint(exchange: Any) -> None:
    messages = exchange.json["messages"]
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    turns = sum(message["role"] == "assistant" for message in messages)
    if "refuse" in prompt:
        body = json.dumps({"error": {"message": HOSTILE, "type": HOSTILE, "code": HOSTILE}}).encode()
        await exchange.whole(body, status=400, x_request_id="req \x9b31m \xff")
        return
    await exchange.head(x_request_id="req \x9b31m \xff")
    if "long" in prompt:
        documents = [delta("x" * LONG), delta("", "stop")]
    elif "act" in prompt:
        documents = ACTS[min(turns, len(ACTS) - 1)]
    elif "say" in prompt:
        half = len(HOSTILE) // 2
        documents = [delta(HOSTILE[:half]), delta(HOSTILE[half:]), delta("", "stop")]
    else:
        documents = [delta("As asked."), delta("", "stop")]
    for document in documents:
        await exchange.event({**document, "model": f"model {HOSTILE}"})
    await exchange.event(b"[DONE]")
    await exchange.end()


async def test_hostile_text_is_kept_as_it_came_shown_harmlessly_and_harms_no_sibling(
    evalctl: Driver, make_suite: MakeSuite
) -> None:
    names = ("plain", "say", "act", "refuse", "long", "plain-too")
    check = rf"printf 'esc \033[31m \342\200\256 <script>|\000'; {SPOIL} exit 0"
    suite = make_suite(
        {name: f"Now {name}, please." for name in names},
        allow=["write", "process"],
        verifiers=[{"kind": "command", "id": "loud", "command": ["sh", "-c", check]}],
    )
    outputs: dict[str, Finished] = {}

    async def run(name: str, *arguments: str) -> Finished:
        outputs[name] = await anyio.to_thread.run_sync(partial(evalctl.run, *arguments))
        return outputs[name]

    async with serving(endpoint) as server:
        flags = ["--provider", "openai", "--model", f"m{HOSTILE[20:]}".replace("\ud835", ""), "--base-url", server.url]
        flags = [flag.replace("\u0000", "") for flag in flags]
        flags += ["--k", "1", "--allow-write", "--allow-process", "-v"]
        done = await run("run", *tiny(suite, *flags))
        assert done.code == 1, done.stderr  # one task is refused
    await run("show", "show", "last")
    await run("status", "status", "last")
    await run("runs", "show", "last", "--runs")
    for position in range(1, len(names) + 1):
        await run(f"show {position}", "show", f"last/{position}", *(() if position == 5 else ("--full",)))

    for name, one in outputs.items():
        assert_harmless(one.stdout, f"stdout of {name}")
        assert_harmless(one.stderr, f"stderr of {name}")
    reports = evalctl.store.parent / "eval" / evalctl.sweep_names()[0]
    text = (reports / "report.md").read_text(encoding="utf-8")
    assert_harmless(text, "report.md")
    for tag in ("<script", "</script", "<img"):
        assert tag not in text
    lines = (reports / "runs.jsonl").read_bytes().decode("ascii").splitlines()
    outcomes = {record["taskId"]: record["status"] for record in map(json.loads, lines)}
    assert outcomes == dict.fromkeys(names, "pass") | {"refuse": "error"}
    json.loads((reports / "report.json").read_bytes().decode("ascii"))

    # What came is what is stored.
    events = {}
    for position in range(1, len(names) + 1):
        shown = (await run(f"json {position}", "--json", "show", f"last/{position}")).json
        events[shown["taskId"]] = shown["events"]
        if shown["taskId"] == "act":
            paths = {change["path"] for change in shown["changes"]}
    said = {name: "".join(e["text"] for e in found if e["kind"] == "text") for name, found in events.items()}
    assert said["say"] == said["act"] == HOSTILE
    assert said["long"] == "x" * LONG
    assert {"<script>", "-rf", "a|b`c`", "bidi\u202e", "bad\udcff", "esc\x1b[31m\nline"} <= paths
    arguments = [event["arguments"] for event in events["act"] if event["kind"] == "tool_started"]
    assert arguments[-1] == {"argument": HOSTILE}


def test_a_plain_locale_changes_nothing_but_how_letters_look(evalctl: Driver, make_suite: MakeSuite) -> None:
    answers = [
        {"toolCalls": [{"id": "c", "name": "bash", "arguments": {"command": "echo 日本 🙂 > 名前.txt; cat 名前.txt"}}]},
        {"text": "できた 🙂"},
    ]
    script = {"format": "evalctl.script/1", "plays": [{"answers": answers}]}
    suite = make_suite({"one": "名前を書く 🙂"}, allow=["process"], scripts={"one": script})
    (suite / "fixtures" / "note" / "資料.txt").write_text("資料 🙂\n", encoding="utf-8")
    evalctl.environment |= {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    done = evalctl.run(*tiny(suite, "--k", "2", "--allow-process"))
    assert done.code == 0, done.stderr
    for arguments in (("show", "last"), ("status",), ("show", "last", "--runs"), ("show", "last/1", "--full")):
        shown = evalctl.run(*arguments)
        assert shown.code == 0, shown.stderr
        assert shown.stdout.isascii()
    shown = evalctl.run("--json", "show", "last/1").json
    assert [change["path"] for change in shown["changes"]] == ["名前.txt"]
    (output,) = [event["output"] for event in shown["events"] if event["kind"] == "tool_completed"]
    assert "日本 🙂" in output
    assert "".join(event["text"] for event in shown["events"] if event["kind"] == "text") == "できた 🙂"


def test_every_file_is_opened_with_its_encoding_named() -> None:
    """Under LC_ALL=C the default is ASCII on some machines."""
    root = Path(__file__).resolve().parents[2]
    found = []
    for folder in ("orchestrator", "store", "providers", "verifiers"):
        for file in (root / folder).rglob("*.py"):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                text = line.strip()
                opens = any(word in text for word in (".read_text(", ".write_text(")) or text.startswith("open(")
                if opens and "encoding" not in text:
                    found.append(f"{os.path.relpath(file, root)}:{number}: {text}")
    assert found == []
