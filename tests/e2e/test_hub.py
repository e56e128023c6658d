"""`hub serve`: the decisions of a lab over HTTP, from a real process."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from orchestrator.lab.formats.daemon_yaml import read_daemon
from providers.base import Answer, Ask, Origin, Request
from providers.decisions.backends import open_providers
from providers.decisions.flow import run_flow
from tests.peers.driver import PATIENCE_S, Driver, Endpoint, Started, until
from tests.providers.system.test_process import is_alive

CONFIG = """
backends:
  house: {{ kind: openai, base_url: "{url}" }}
capabilities:
  gate:
    description: "May a tool run?"
    input_schema: {{ type: object, required: [tool], properties: {{ tool: {{ type: string }} }} }}
    output_schema: {{ type: object, required: [verdict] }}
    flow:
      - {{ id: reading, kind: rule, when: "input.tool == 'read'", decision: {{ verdict: allow }} }}
      - {{ id: gate, kind: exec, command: ["{python}", "./gate.py"], timeout_ms: 60000, fallback: judge }}
      - id: judge
        kind: model
        backend: house
        model: peer-1
        prompt: "[[latency_ms=1]] May {{{{ input.tool }}}} run?"
        answer: {{ type: object, required: [verdict], properties: {{ verdict: {{ enum: [allow, ask, deny] }} }} }}
  slow:
    input_schema: {{}}
    flow:
      - {{ id: sleeper, kind: exec, command: ["{python}", "./sleeper.py"] }}
"""
GATE = """
import json, sys
tool = json.load(sys.stdin)["tool"]
known = {"rm": {"verdict": "deny", "reason": "löscht", "confidence": 0.9}}
print(json.dumps(known.get(tool, {"abstain": "an unknown tool"})))
if tool == "crash":
    sys.exit("no such tool")
"""
SLEEPER = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path("pids.part").write_text(f"{os.getpid()} {child.pid}")
os.rename("pids.part", "pids")
time.sleep(600)
"""
TEXT = json.dumps({"answer": {"verdict": "ask"}, "confidence": 0.75})
SLOW = json.dumps({"capability": "slow", "input": {}}).encode()


@pytest.fixture
def config(tmp_path: Path, endpoint: Endpoint) -> Path:
    endpoint.plan({"do": {"steps": [{"text": TEXT}]}})
    folder = tmp_path / "hub"
    folder.mkdir()
    (folder / "gate.py").write_text(GATE, encoding="utf-8")
    (folder / "sleeper.py").write_text(SLEEPER, encoding="utf-8")
    file = folder / "config.yaml"
    file.write_text(CONFIG.format(url=endpoint.url, python=sys.executable), encoding="utf-8")
    return file


@contextlib.contextmanager
def serving(evalctl: Driver, config: Path, *more: str) -> Iterator[tuple[Started, str]]:
    """A hub on a free port, and its URL."""
    started = evalctl.start("--json", "hub", "serve", "--config", config, "--port", "0", *more)
    try:
        until(lambda: started.stdout.read_bytes().endswith(b"\n") or started.process.poll() is not None, "the hub")
        assert started.process.poll() is None, started.said()
        said = json.loads(started.stdout.read_text(encoding="utf-8"))
        assert said["schema"] == "evalctl.hub-listening/1"
        yield started, said["url"]
    finally:
        if started.process.poll() is None:
            started.kill()


@contextlib.contextmanager
def asking(url: str, body: bytes) -> Iterator[http.client.HTTPConnection]:
    """A connection on which what `curl -d @FILE` sends has been sent."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("POST", parts.path, body, {"content-type": "application/x-www-form-urlencoded"})
        yield connection


def post(url: str, body: bytes) -> Any:
    """What is answered to it."""
    with asking(url, body) as connection:
        return json.loads(connection.getresponse().read())


def in_process(config: Path, capability: str, value: Any) -> Any:
    """The decision as a lab makes it, without HTTP."""

    async def decided() -> Any:
        daemon = read_daemon(config, path=os.environ["PATH"])  # noqa: TID251 - where programs are
        chosen = daemon.capabilities[capability]
        opened = open_providers(daemon, [chosen], key_of=lambda _variable, _kind: (None, None), base=config.parent)

        def ask_of(name: str) -> Ask:
            async def ask(request: Request) -> Answer:
                return await opened[name].answer(request, lambda _item: None)

            return ask

        origin = Origin(suite_id="lab", case_id=capability, repetition=1)
        clock = iter(range(10_000)).__next__
        try:
            return (await run_flow(chosen, value, ask_of=ask_of, origin=origin, clock=clock)).to_json()
        finally:
            for provider in opened.values():
                await provider.aclose()

    return anyio.run(decided)


def timeless(decision: Any) -> Any:
    """Without the times in the trace."""
    assert all(isinstance(step.pop("ms"), int) for step in decision["trace"])
    return decision


CASES = {
    "a rule": ({"tool": "read"}, "ok", ["reading"]),
    "a specialist": ({"tool": "rm"}, "ok", ["reading", "gate"]),
    "a model": ({"tool": "mv – 移動"}, "ok", ["reading", "gate", "judge"]),
    "a crash and a model": ({"tool": "crash"}, "ok", ["reading", "gate", "judge"]),
    "no decision": ({"tol": "read"}, "error", []),
}


def test_what_the_hub_answers_is_the_decision_made_in_process_but_for_times(evalctl: Driver, config: Path) -> None:
    with serving(evalctl, config) as (_, url):
        for what, (value, status, nodes) in CASES.items():
            answer = post(url, json.dumps({"capability": "gate", "input": value}).encode())
            assert (answer["status"], [step["node"] for step in answer["trace"]]) == (status, nodes), what
            assert timeless(answer) == timeless(in_process(config, "gate", value)), what


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_curl_with_a_file_gets_the_decision_made_in_process_but_for_times(
    evalctl: Driver, config: Path, tmp_path: Path
) -> None:
    value = {"tool": "mv"}
    file = tmp_path / "input.json"
    file.write_text(json.dumps({"capability": "gate", "input": value}, indent=2), encoding="utf-8")
    with serving(evalctl, config) as (_, url):
        argv = ["curl", "--silent", "--fail", "--noproxy", "*", "-d", f"@{file}", url]
        curl = subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE_S)
    answer = json.loads(curl.stdout)
    assert answer["decision"] == {"verdict": "ask"}
    assert timeless(answer) == timeless(in_process(config, "gate", value))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_ends_the_hub_and_all_that_it_started(
    evalctl: Driver, config: Path, number: signal.Signals, code: int
) -> None:
    with serving(evalctl, config) as (started, url):
        with asking(url, SLOW) as connection:
            until((config.parent / "pids").exists, "the specialist")
            started.signal(number)
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["error"]["code"]) == (503, "stopping")
        assert started.finish().code == code
    pids = [int(pid) for pid in (config.parent / "pids").read_text(encoding="ascii").split()]
    until(lambda: not any(is_alive(pid) for pid in pids), "the specialist and what it started to be gone")
    assert started.said() == ""


def test_who_hangs_up_takes_the_specialist_with_it_and_the_hub_goes_on(evalctl: Driver, config: Path) -> None:
    with serving(evalctl, config) as (_, url):
        with asking(url, SLOW):
            until((config.parent / "pids").exists, "the specialist")
        pids = [int(pid) for pid in (config.parent / "pids").read_text(encoding="ascii").split()]
        until(lambda: not any(is_alive(pid) for pid in pids), "the specialist and what it started to be gone")
        answer = post(url, json.dumps({"capability": "gate", "input": {"tool": "read"}}).encode())
    assert answer["decision"] == {"verdict": "allow"}


def test_a_client_that_only_begins_to_speak_does_not_hold_up_the_end(evalctl: Driver, config: Path) -> None:
    with serving(evalctl, config) as (started, url):
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as half:
            half.sendall(b"POST /v1/hub HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
            post(url, b"{}")  # what was sent before has arrived by now
            started.signal(signal.SIGTERM)
            assert started.finish(20).code == 143


def test_a_person_is_told_where_it_listens(evalctl: Driver, config: Path) -> None:
    started = evalctl.start("hub", "serve", "--config", config, "--port", "0")
    until(lambda: started.stdout.read_bytes().endswith(b"\n"), "the hub")
    line = started.stdout.read_text(encoding="utf-8")
    assert line.startswith("POST http://127.0.0.1:")
    assert line.endswith("/v1/hub answers for gate, slow; Ctrl-C ends it\n")
    started.signal(signal.SIGINT)
    assert started.finish().code == 130


def test_decisions_are_logged_for_those_who_ask(evalctl: Driver, config: Path) -> None:
    with serving(evalctl, config, "-v", "--log-format", "json") as (started, url):
        post(url, json.dumps({"capability": "gate", "input": {"tool": "read"}}).encode())
        until(started.said, "a log line")
        logged = json.loads(started.said())
    assert (logged["event"], logged["capability"], logged["status"]) == ("hub.decided", "gate", "ok")


def test_a_mistake_in_the_configuration_is_told_before_anything_is_served(evalctl: Driver, config: Path) -> None:
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("backend: house", "backend: huose"), encoding="utf-8")
    done = evalctl.run("hub", "serve", "--config", config, "--port", "0")
    assert done.code == 1
    assert done.stdout == ""
    assert "config.yaml:14:9: capabilities.gate.flow[2].backend" in done.stderr
    assert "did you mean 'house'?" in done.stderr


def test_a_port_that_is_taken_and_an_address_of_others_are_told(evalctl: Driver, config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = evalctl.run("hub", "serve", "--config", config, "--port", str(taken.getsockname()[1]))
    assert done.code == 1
    assert "cannot listen on 127.0.0.1" in done.stderr
    done = evalctl.run("hub", "serve", "--config", config, "--host", "0.0.0.0")
    assert done.code == 1
    assert "expected a loopback address" in done.stderr
