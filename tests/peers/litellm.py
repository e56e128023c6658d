"""litellm's proxy (MIT): a gateway that nobody here wrote, in front of texts of its own and of the counting endpoint.

    python -m tests.peers.litellm

installs it into `.peers/litellm` from `requirements-litellm.lock`, and leaves with 0 when it is there, or with 3 after
saying loudly why it is not. Nothing else downloads anything.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.peers import environments
from tests.peers.driver import ROOT, Endpoint, clean_environment, until

CONFIG = Path(__file__).parent / "data" / "litellm" / "config.yaml"
HOME = ROOT / ".peers" / "litellm"
LOCK = ROOT / "requirements-litellm.lock"
PROGRAM = HOME / "bin" / "litellm"
INSTALL_S = 1200.0
START_S = 180.0
"""It imports for about 15 s on an idle machine, and much longer on a busy one."""

MASTER_KEY = "sk-peer-master-5b0d6f1e93"
"""Without it, the proxy answers nothing but 401."""


def install() -> str | None:
    """Install what the lock names, unless it is there; why not, where it cannot be had."""
    return environments.install(HOME, LOCK, patience_s=INSTALL_S)


@attrs.frozen(kw_only=True)
class Litellm:
    """A running proxy, and the endpoint that it passes `passed-through` on to."""

    port: int
    behind: Endpoint

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/readiness", timeout=30) as response:
                return bool(response.status == 200)
        except OSError:  # not listening yet, or not answering yet
            return False


@contextlib.contextmanager
def running_litellm(folder: Path, behind: Endpoint) -> Iterator[Litellm]:
    """Start it on a free port with our configuration, wait until it is ready, and end it."""
    assert environments.is_installed(HOME, LOCK), "litellm is not installed: run `make peers`"
    with socket.socket() as free:  # it cannot choose a port itself and say which
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = clean_environment(
        folder,
        LITELLM_LOCAL_MODEL_COST_MAP="True",  # otherwise it fetches a price list from the network at start
        LITELLM_MASTER_KEY=MASTER_KEY,
        PEER_URL=behind.url,
    )
    (folder / "tmp").mkdir(exist_ok=True)
    argv = [str(PROGRAM), "--config", str(CONFIG), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    log = folder / "litellm.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=environment) as process,
    ):
        try:
            peer = Litellm(port=port, behind=behind)

            def answers() -> bool:
                assert process.poll() is None, f"litellm ended: {log.read_text(encoding='utf-8')[-2000:]}"
                return peer.is_ready()

            until(answers, "litellm to be ready", patience_s=START_S, every_s=0.2)
            yield peer
        finally:
            process.terminate()
            process.wait(30)


def main() -> None:
    environments.report("litellm", install(), PROGRAM)


if __name__ == "__main__":
    main()
