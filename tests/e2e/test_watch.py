"""`status --watch` on a terminal and in a pipe, and `status --why`, while real processes work."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import COMMAND, PATIENCE_S, Driver, Endpoint, Started, until


class Screen:
    """A terminal with a command on it, and all that was written there."""

    def __init__(self, evalctl: Driver, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        environment = evalctl.environment | {"TERM": "xterm", "COLUMNS": "160", "LINES": "50"}
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=evalctl.home,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = b""

    def seen(self) -> str:
        with contextlib.suppress(BlockingIOError, OSError):  # EIO: the last one has closed it
            while chunk := os.read(self.master, 65536):
                self._seen += chunk
        return self._seen.decode(errors="replace")

    def shows(self, text: str) -> None:
        until(lambda: text in self.seen(), f"the terminal to show {text!r}", every_s=0.05)

    def finish(self) -> int:
        until(lambda: self.seen() is not None and self.process.poll() is not None, "the command to end", every_s=0.05)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


@pytest.fixture
def held(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> Iterator[Started]:
    endpoint.plan({"do": {"hold": 0}})
    started = evalctl.start(*tiny(make_suite(numbered(2)), "--k", "3", "--concurrency", "2", *against(endpoint)))
    until(lambda: endpoint.counts()["held"] == 2, "2 requests")
    yield started
    endpoint.plan()
    endpoint.release()


def test_on_a_terminal_it_redraws_until_the_sweep_is_done(evalctl: Driver, endpoint: Endpoint, held: Started) -> None:
    with contextlib.closing(Screen(evalctl, "status", "--watch")) as screen:
        screen.shows("0 of 6 runs have a result")
        screen.shows("2 wait for an answer from ")
        assert evalctl.run("pause", "last", "--why", "lunch").code == 0
        screen.shows("(lunch)")
        assert evalctl.run("continue", "last").code == 0
        endpoint.plan()
        endpoint.release()
        assert screen.finish() == 0
        assert "6 of 6 runs have a result" in screen.seen()
        assert screen.seen().count("\x1b[") > 10, "it draws in place"
    assert held.finish().code == 0


def test_ctrl_c_ends_watching_and_not_the_sweep(evalctl: Driver, endpoint: Endpoint, held: Started) -> None:
    with contextlib.closing(Screen(evalctl, "status", "--watch")) as screen:
        screen.shows("0 of 6 runs have a result")
        screen.process.send_signal(signal.SIGINT)
        assert screen.finish() == 0
        assert "Traceback" not in screen.seen()
    assert held.process.poll() is None


def test_in_a_pipe_it_is_a_line_per_change(evalctl: Driver, endpoint: Endpoint, held: Started) -> None:
    watching = evalctl.start("status", "--watch")
    until(lambda: "2 wait for an answer" in Path(watching.stdout).read_text(encoding="utf-8"), "the first line")
    endpoint.plan()
    endpoint.release()
    done = watching.finish()
    assert done.code == 0
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("running: 0 of 6 done")
    assert last.startswith("done: 6 of 6 done, 6 pass")
    assert "\x1b" not in done.stdout


def test_why_follows_a_run_from_the_claim_to_its_end(evalctl: Driver, endpoint: Endpoint, held: Started) -> None:
    names = [evalctl.run("status", "--why", f"last/{position}").stdout for position in range(1, 7)]
    assert sum("has waited for an answer from" in text for text in names) == 2
    assert sum("has claimed it; it has waited for its turn" in text for text in names) == 2
    assert sum("has not been claimed yet" in text for text in names) == 2
    held.kill()
    told = evalctl.run("status", "--why", "last/1").stdout
    assert "died before finishing it" in told
    assert "`resume` runs it" in told
    endpoint.plan()
    endpoint.release()
    assert evalctl.run("resume", "last").code == 0
    told = evalctl.run("status", "--why", "last/1").stdout
    assert "it is finished: pass" in told
    assert "attempt 1, " in told
    assert "attempt 2, " in told


def test_a_terminal_that_goes_away_ends_the_sweep_in_order(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"hold": 0}})
    suite = make_suite(numbered(2))
    screen = Screen(evalctl, *tiny(suite, "--k", "3", "--concurrency", "2", *against(endpoint)))
    until(lambda: endpoint.counts()["held"] == 2, "2 requests")
    os.close(screen.master)
    screen.process.send_signal(signal.SIGHUP)
    assert screen.process.wait(PATIENCE_S) == 143
    assert evalctl.number("SELECT count(*) FROM current WHERE reason = 'interrupted'") == 2
    assert evalctl.number("SELECT count(*) FROM notice WHERE kind = 'left'") == 1
    evalctl.assert_sound()
