"""The request that `run`, `variants` and `record` make of their flags."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs

from orchestrator.cli.limits import LimitFlags
from orchestrator.suite.effects import Grants
from providers.base import Effect


@attrs.frozen(kw_only=True)
class ModelFlags:
    """The flags that choose the provider and the model; None leaves it to the configuration."""

    provider: str | None
    model: str | None
    base_url: str | None
    api_key_env: str | None
    config: Path | None
    """The file that takes the place of the project's."""
    trust_project: bool
    """Whether the project's file may name provider, endpoint and key variable."""
    prices: Path | None
    """A file of prices, which beats those of configuration files."""
    input_rate: str | None
    output_rate: str | None
    """USD per million tokens, for the report's estimate."""

    def given_connection(self) -> dict[str, str]:
        """The flags that say where requests go, those that were given."""
        flags = {
            "--provider": self.provider,
            "--model": self.model,
            "--base-url": self.base_url,
            "--api-key-env": self.api_key_env,
        }
        return {flag: value for flag, value in flags.items() if value is not None}


@attrs.frozen(kw_only=True)
class RunRequest:
    """What one command line asks for. No file has been read yet, and nothing is checked beyond single flags."""

    verb: Literal["run", "variants", "record"]
    suite: str | None
    """An id or the name of a directory; None only where the settings are printed."""
    suite_dir: Path | None
    tasks: str | None
    """Task ids with commas between them; None is all."""
    k: int | None = None
    """Repetitions of every task; None is the default of the mode."""
    seed: int
    mode: str = "live"
    cassette_dir: str | None = None
    replay_of: str | None = None
    """The stored sweep that a replay repeats; None is cassettes."""
    variants: Path | None = None
    """The compare.json of `variants`."""
    model: ModelFlags
    limits: LimitFlags
    grants: Grants
    sandbox: str
    yes: bool
    """Whether a suite that is not bundled runs without a confirmation."""
    keep: bool
    out: str | None = None
    print_config: bool = False
    """Print the settings and run nothing."""


def make_grants(
    *, write: bool, process: bool, external: bool, analysis: bool, read_only: bool, suite_full: bool
) -> Grants:
    """The grants of the flags `--allow-...` and `--read-only`."""
    flags: dict[Effect, bool] = {"write": write, "process": process, "external": external, "analysis": analysis}
    effects = frozenset(effect for effect, granted in flags.items() if granted)
    return Grants(effects=effects, read_only=read_only, suite_full=suite_full)
