"""Python environments that peers have for themselves, below `.peers/`, from lock files with hashes.

A peer's dependencies never meet the product's. An environment is made once: it is there when its copy of the lock is
the committed one, which is written last.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.peers.driver import ROOT

MISSING = 3
"""Exit code of an installer whose peer cannot be had here."""


def is_installed(home: Path, lock: Path) -> bool:
    """Whether the environment in *home* is the one that *lock* describes."""
    made = home / lock.name
    return made.exists() and made.read_bytes() == lock.read_bytes()


def install(home: Path, lock: Path, *, patience_s: float, settings: Mapping[str, str] | None = None) -> str | None:
    """Make the environment in *home* from *lock*, unless it is there; why not, where it cannot be had.

    *settings* are environment variables for whatever has to be compiled.
    """
    if is_installed(home, lock):
        return None
    shutil.rmtree(home, ignore_errors=True)
    print(f"installing {home.relative_to(ROOT)} from {lock.name}; this takes minutes, once", flush=True)  # noqa: T201 - for the one who waits
    venv.create(home, with_pip=True)
    # The lock is complete, so there is nothing to resolve, and a package that one left out would be no surprise.
    argv = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    argv += ["--requirement", str(lock)]
    environment = dict(os.environ) | dict(settings or {})  # noqa: TID251 - pip is configured by it: index, certificates
    try:
        done = subprocess.run(
            argv,
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        shutil.rmtree(home, ignore_errors=True)
        return f"pip install took longer than {patience_s:g} s"
    if done.returncode:
        shutil.rmtree(home, ignore_errors=True)
        lines = done.stderr.splitlines()  # warnings about indexes and versions are none of the reasons
        why = " ".join(line for line in lines if line.startswith("ERROR")) or done.stderr
        return f"pip install failed: {' '.join(why.split())[-300:]}"
    shutil.copyfile(lock, home / lock.name)
    return None


def report(peer: str, why: str | None, where: Path) -> None:
    """Say where the peer is; or loudly why it is not, and leave with `MISSING`."""
    if why is None:
        print(f"peer {peer}: {where.relative_to(ROOT)}")  # noqa: T201 - what an installer is for
        return
    print(f"PEER MISSING: {peer}: {why}", file=sys.stderr)  # noqa: T201
    sys.exit(MISSING)
