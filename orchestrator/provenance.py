"""Provenance of a sweep: versions, machine, and the state of the git checkout in which it was started."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from orchestrator.version import __version__
from providers.system.process import ProcessNotStarted, run_process
from store.events import Json

GIT_TIMEOUT_S = 10.0


async def read_provenance(directory: Path, environment: Mapping[str, str], *, ask_git: bool = True) -> dict[str, Json]:
    """Read the conditions of measurement that are not settings. `git` is None outside a checkout, or without *ask_git*,
    which allows to start git.
    """
    return {
        "harnessVersion": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "git": await _read_git(directory, environment) if ask_git else None,
    }


async def _read_git(directory: Path, environment: Mapping[str, str]) -> dict[str, Json] | None:
    variables = {name: environment[name] for name in ("PATH", "HOME") if name in environment}
    variables |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

    async def run_git(*words: str) -> str | None:
        finished = await run_process(
            ("git", *words),
            cwd=directory,
            environment=variables,
            marker="",
            timeout_s=GIT_TIMEOUT_S,
            output_limit=1 << 20,
        )
        return finished.stdout.decode(errors="replace") if finished.exit_code == 0 else None

    try:
        status = await run_git("status", "--porcelain=v2", "--branch", "--untracked-files=normal")
        remote = await run_git("config", "--get", "remote.origin.url") if status is not None else None
    except ProcessNotStarted:
        return None
    if status is None:
        return None
    lines = status.splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch.") and " " in line[2:])
    return {
        "commit": heads.get("branch.oid"),
        "branch": heads.get("branch.head"),
        "remote": without_credentials(remote.strip()) if remote else None,
        "dirty": any(not line.startswith("#") for line in lines),
    }


def without_credentials(url: str) -> str:
    """Remove the user name and password from a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "unreadable"
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
