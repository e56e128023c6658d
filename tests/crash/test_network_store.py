"""A whole sweep with its store on a network file system, as far as the kernel's table of mounts can tell.

The command is started in a mount namespace of its own, in which its table says `nfs4` of the store's folder: nothing in
the product knows of it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.crash.aftermath import assert_nothing_lost_or_doubled, kill
from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, until

UNSHARE = ("unshare", "--mount", "sh", "-c")
TABLE = 'mount --bind "$0" "/proc/$$/mountinfo" && exec "$@"'
JOURNAL = 18
"""Offset in a database's header of the version that writes it: 1 is a rollback journal, 2 is WAL."""


@pytest.fixture
def on_nfs(evalctl: Driver, tmp_path: Path) -> tuple[str, ...]:
    """What goes before the command."""
    table = tmp_path / "mountinfo"
    real = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    table.write_text(f"{real}999 1 0:99 / {evalctl.store.parent} rw - nfs4 server:/export rw\n", encoding="utf-8")
    prefix = (*UNSHARE, TABLE, str(table))
    probe = subprocess.run([*prefix, "cat", "/proc/self/mountinfo"], capture_output=True, check=False)
    if b"nfs4 server:/export" not in probe.stdout:
        pytest.skip(f"no mount namespace of one's own: {probe.stderr.decode(errors='replace').strip()}")
    return prefix


def test_a_sweep_there_is_told_so_killed_refused_to_others_and_resumed(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, on_nfs: tuple[str, ...]
) -> None:
    endpoint.plan({"do": {"hold": 0}})
    flags = tiny(make_suite(numbered(2)), *against(endpoint), "--k", "4", "--concurrency", "4")
    started = evalctl.start(*flags, prefix=on_nfs)
    until(lambda: endpoint.counts()["held"] == 4, "4 requests")
    assert "network file system (nfs4)" in started.said()
    assert evalctl.store.read_bytes()[JOURNAL] == 1

    refused = evalctl.run("resume", "last", prefix=on_nfs)
    assert refused.code == 1
    assert f"process {started.process.pid} is using it" in refused.stderr

    endpoint.release(2)
    until(lambda: evalctl.number("SELECT count(*) FROM outcome") == 2, "2 outcomes")
    crash = kill(evalctl, endpoint, started)
    endpoint.release()
    assert evalctl.run("resume", "last", prefix=on_nfs).code == 0
    assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=8)
    assert not Path(f"{evalctl.store}-wal").exists()
