"""The request that `run`, `variants` and `record` build from their flags."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs

from orchestrator.cli.limits import LimitFlags
from orchestrator.suite.effects import Grants
from providers.base import Effect


@attrs.frozen(kw_only=True)
class ModelFlags:
    """The flags that choose provider and model. None: the configuration decides."""

    provider: str | None
    model: str | None
    base_url: str | None
    api_key_env: str | None
    config: Path | None
    """A configuration file that replaces the project's."""
    trust_project: bool
    """True: the project's file may set provider, endpoint and key variable."""
    prices: Path | None
    """A file of prices, which override those of configuration files."""
    input_rate: str | None
    output_rate: str | None
    """USD per million tokens, for the estimate in the report."""

    def given_connection(self) -> dict[str, str]:
        """Return the flags that say where requests go, if they were given."""
        flags = {
            "--provider": self.provider,
            "--model": self.model,
            "--base-url": self.base_url,
            "--api-key-env": self.api_key_env,
        }
        return {flag: value for flag, value in flags.items() if value is not None}


@attrs.frozen(kw_only=True)
class RunRequest:
    """The flags of one command line. No file has been read yet, and only single flags have been checked."""

    verb: Literal["run", "variants", "record"]
    suite: str | None
    """An id or the name of a directory; None only with --print-config."""
    suite_dir: Path | None
    tasks: str | None
    """Task ids separated by commas; None is all."""
    k: int | None = None
    """Repetitions of every task; None is the default of the mode."""
    seed: int
    mode: str = "live"
    cassette_dir: str | None = None
    replay_of: str | None = None
    """The stored sweep that a replay repeats; None: it plays cassettes."""
    variants: Path | None = None
    """The compare.json of `variants`."""
    model: ModelFlags
    limits: LimitFlags
    grants: Grants
    sandbox: str
    yes: bool
    """True: run a suite that is not bundled without asking for confirmation."""
    keep: bool
    out: str | None = None
    print_config: bool = False
    """True: print the settings and run nothing."""


def make_grants(
    *, write: bool, process: bool, external: bool, analysis: bool, read_only: bool, suite_full: bool
) -> Grants:
    """Make the grants from the flags `--allow-...` and `--read-only`."""
    flags: dict[Effect, bool] = {"write": write, "process": process, "external": external, "analysis": analysis}
    effects = frozenset(effect for effect, granted in flags.items() if granted)
    return Grants(effects=effects, read_only=read_only, suite_full=suite_full)
