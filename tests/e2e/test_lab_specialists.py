"""`lab live` with specialists that do everything wrong: each is its own run's failure, and the rest goes on."""

import json
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.lab_files import run_directory, write_lab
from tests.peers.driver import Driver, marked

ANSWERS = {"cel": "status == 'ok' && decision.verdict == 'allow'", "why": "the specialist answers"}
PROGRAM = """
    import json, os, signal, subprocess, sys, time
    how = json.load(sys.stdin)["command"]
    if how == "slow":
        subprocess.Popen(["sleep", "300"], start_new_session=True)
        time.sleep(300)
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        sys.exit("no such model")
    if how == "rubbish":
        sys.exit(print("<html>"))
    if how == "flood":
        sys.exit(print("x" * 10_000_000))
    if how == "daemon":
        subprocess.Popen(["sleep", "300"], start_new_session=True)
    print(json.dumps({"verdict": "allow", "confidence": 0.75}))
"""


def live(
    evalctl: Driver, node: dict[str, Any], endings: dict[str, tuple[str, str | None]]
) -> dict[str, dict[str, Any]]:
    """Run a fixture for each of *endings* against *node*; what came of each."""
    fixtures = {how: {"input": {"command": how}, "expect": [ANSWERS]} for how in endings}
    write_lab(evalctl.home, flow=[node], fixtures=fixtures, targets={"jev": {"backend": "house", "model": "m"}})
    (evalctl.home / "config" / "lab" / "gate.py").write_text(textwrap.dedent(PROGRAM))

    ended = evalctl.run("lab", "live", "--yes", "--concurrency", "4")

    assert ended.code == 1, ended.stderr  # an infrastructural error is no complete measurement
    assert "Traceback (most recent call last)\n  File" not in ended.stderr
    lines = (run_directory(evalctl.home) / "results.jsonl").read_text(encoding="utf-8").splitlines()
    evalctl.assert_sound()
    return {one["fixture"]: one for one in map(json.loads, lines)}


def causes(results: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    return {how: (one["outcome"], one.get("error", {}).get("cause")) for how, one in results.items()}


def test_programs_that_fail_are_their_own_runs_failures_and_none_is_left(evalctl: Driver) -> None:
    endings = {
        "good": ("pass", None),
        "daemon": ("pass", None),
        "slow": ("error", "timeout"),
        "deaf": ("error", "timeout"),
        "crash": ("error", "specialist"),
        "exit": ("error", "specialist"),
        "flood": ("error", "specialist"),
        "rubbish": ("error", "specialist"),
    }
    node = {"id": "it", "kind": "exec", "command": [sys.executable, "gate.py"], "timeout_ms": 3000, "local": True}

    results = live(evalctl, node, endings)

    assert causes(results) == endings
    assert results["crash"]["error"]["message"].endswith("ended by SIGSEGV")
    assert results["exit"]["error"]["message"].endswith("ended with exit code 1: no such model")
    assert marked(evalctl.sweep_names()) == []


@pytest.fixture
def vendor() -> Iterator[str]:
    """An endpoint that behaves as the input says; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            how = json.loads(self.rfile.read(int(self.headers["content-length"])))["command"]
            body = b"<html>" if how == "rubbish" else b'{"verdict": "allow"}'
            if how == "hangs":
                ended.wait(60)
                return
            self.send_response(int(how.removeprefix("status-")) if how.startswith("status-") else 200)
            self.send_header("content-length", str(len(body) + 100 * (how == "cut")))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    ended = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/decide"
    ended.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_endpoints_that_fail_are_their_own_runs_failures(evalctl: Driver, vendor: str) -> None:
    endings = {
        "good": ("pass", None),
        "rubbish": ("error", "specialist"),
        "cut": ("error", "specialist"),
        "status-404": ("error", "specialist"),
        "status-422": ("error", "specialist"),
        "hangs": ("error", "timeout"),
    }
    node = {"id": "it", "kind": "http", "url": vendor, "timeout_ms": 2000, "local": True}

    assert causes(live(evalctl, node, endings)) == endings
