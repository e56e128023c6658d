"""Git repository in a workspace: one reproducible commit of all files, independent of the user's git settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from providers.system.paths import build_git_ceilings
from providers.system.process import ProcessNotStarted, run_process

IDENTITY = {"NAME": "evalctl", "EMAIL": "evalctl@localhost", "DATE": "2000-01-01T00:00:00Z"}

SEALED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in IDENTITY.items()},
}
"""Environment of git beside PATH and the repository's place: it keeps out the user's configuration, hooks, identity and
clock."""

OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "-c", "core.autocrlf=false")

STEPS = (
    ("init", "--quiet", "--template=", "--initial-branch=main"),
    ("add", "--all"),
    ("commit", "--quiet", "--allow-empty", "--no-verify", "--message=fixture"),
)

TIMEOUT_S = 60.0


class CommitFailed(Exception):
    """Git is missing, failed, or took too long; the message says which."""


async def commit_all(path: Path, *, home: Path, environment: Mapping[str, str], marker: str) -> None:
    """Make *path* a git repository with one commit of all its files; *home* is the HOME of the git processes.

    Raises:
        CommitFailed: git is missing, fails, or takes longer than a minute.
    """
    sealed = _seal_environment(path, home=home, environment=environment)
    for step in STEPS:
        try:
            finished = await run_process(
                ("git", *OPTIONS, *step),
                cwd=path,
                environment=sealed,
                marker=marker,
                timeout_s=TIMEOUT_S,
                output_limit=2**14,
            )
        except ProcessNotStarted as error:
            raise CommitFailed(f"fixtureGit needs git: {error}") from error
        if finished.timed_out or finished.exit_code != 0:
            stderr = finished.stderr.decode("utf-8", "replace").strip()[-500:]
            problem = "timed out" if finished.timed_out else f"ended with exit code {finished.exit_code}"
            raise CommitFailed(f"git {step[0]} {problem}: {stderr}")
    _set_identity(path / ".git" / "config")


def _seal_environment(path: Path, *, home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    real = path.resolve()  # git compares these paths, and would otherwise store the work tree in its configuration
    return {
        "PATH": environment.get("PATH", ""),
        "HOME": str(home),
        "GIT_DIR": str(real / ".git"),
        "GIT_WORK_TREE": str(real),
        "GIT_CEILING_DIRECTORIES": build_git_ceilings([path]),
        **SEALED,
    }


def _set_identity(config: Path) -> None:
    """Configure an identity in the repository, so that the agent can commit."""
    with config.open("a", encoding="utf-8") as file:
        file.write(f"[user]\n\tname = {IDENTITY['NAME']}\n\temail = {IDENTITY['EMAIL']}\n")
