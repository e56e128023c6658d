"""aimock (`@copilotkit/aimock`, MIT): a model endpoint that nobody here wrote.

    python -m tests.peers.aimock

installs it into `.peers/aimock` from the lock in `data/aimock/`, and leaves with 0 when it is there, or with 3 after
saying loudly why it is not. Nothing else downloads anything.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from tests.peers import environments
from tests.peers.driver import ROOT, clean_environment, until

DATA = Path(__file__).parent / "data" / "aimock"
HOME = ROOT / ".peers" / "aimock"
PROGRAM = HOME / "node_modules" / ".bin" / "llmock"
LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")


def install() -> str | None:
    """Install what the lock names, unless it is there; why not, where it cannot be had."""
    wanted = (DATA / "package-lock.json").read_bytes()
    if PROGRAM.exists() and (HOME / "package-lock.json").read_bytes() == wanted:
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    HOME.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(DATA / name, HOME / name)
    try:
        done = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=HOME,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "npm ci took longer than 300 s"
    if done.returncode or not PROGRAM.exists():
        shutil.rmtree(HOME, ignore_errors=True)
        return f"npm ci failed: {' '.join(done.stderr.split())[-300:]}"
    return None


@attrs.frozen(kw_only=True)
class Aimock:
    """A running aimock."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def base_url(self, shape: str) -> str:
        """What `--base-url` is for the wire format *shape*."""
        return self.url if shape != "ollama" else f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as response:
            return json.loads(response.read())

    def journal(self) -> list[Any]:
        """Every request it has answered, as it saw them."""
        return list(self.get("/__aimock/journal?limit=1000"))

    def is_ready(self) -> bool:
        try:
            return bool(self.get("/health")["status"] == "ok")
        except urllib.error.URLError:
            return False


@contextlib.contextmanager
def running_aimock(folder: Path, *, chunk_size: int = 5, fixtures: Path = DATA / "fixtures.json") -> Iterator[Aimock]:
    """Start it on a free port with *fixtures*, wait until it is ready, and end it."""
    assert PROGRAM.exists(), "aimock is not installed: run `make peers`"
    log = folder / "aimock.log"
    argv = [str(PROGRAM), "-p", "0", "-h", "127.0.0.1", "-f", str(fixtures), "-c", str(chunk_size)]
    strictly = {"AIMOCK_STRICT_TURN_INDEX": "1"}  # otherwise a turn too many gets the nearest answer instead of none
    with (
        log.open("wb") as file,
        subprocess.Popen(
            argv, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=clean_environment(folder, **strictly)
        ) as process,
    ):
        try:
            found = until(lambda: LISTENING.search(log.read_text(encoding="utf-8")), "aimock to listen")
            assert found is not None
            peer = Aimock(port=int(found[1]))
            until(peer.is_ready, "aimock to be ready")
            yield peer
        finally:
            process.terminate()
            process.wait(30)


def main() -> None:
    environments.report("aimock", install(), PROGRAM)


if __name__ == "__main__":
    main()
