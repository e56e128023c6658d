"""Carry out a request of `run`, `variants` or `record`: make settings from flags and files, check, run the sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

import typer

from orchestrator.cli import options
from orchestrator.cli.common import Exit, ask_confirmation, format_trust_warning, print_notice
from orchestrator.cli.suite import replaying, sweeping
from orchestrator.cli.suite.request import ModelFlags, RunRequest
from orchestrator.engine.caps import select_prices
from orchestrator.measured import config_hash
from orchestrator.suite.catalog import find_suite
from orchestrator.suite.config import Config, load_config, with_flags, with_prices, with_values
from orchestrator.suite.effects import refuse_ungranted
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.plan import select_tasks
from orchestrator.suite.settings import Settings
from orchestrator.suite.variant import Variant
from orchestrator.world import World, real_world
from providers.registry import find_provider
from store.errors import UsageError
from store.rows import Caps

MAX_RATE = 1_000_000
"""USD per million tokens, of --input-rate and --output-rate."""


def run_request(request: RunRequest, context: typer.Context) -> int:
    """Carry out *request* and return the exit code.

    Args:
        request: the flags of the command line.
        context: of the verb; `--print-config` shows the origins of flags from it.

    Raises:
        typer.BadParameter: flags do not fit together.
        EvalctlError: a file has mistakes, a grant is missing, or the sweep cannot start.
    """
    _check_mode(request)
    options.parse_sandbox(request.sandbox)
    _check_rates(request.model)
    world = real_world()
    if request.suite is None and not request.print_config:
        raise options.MissingParameter("argument SUITE")
    suite = find_suite(request.suite, request.suite_dir) if request.suite is not None else None
    tasks = select_tasks(suite, options.split_names(request.tasks)) if suite is not None else ()
    config = _read_config(request.model, world)
    if suite is None or request.print_config:
        _print_settings(request, context, config, tasks, world)
        return Exit.DONE
    settings = make_settings(request, suite, tasks, config, world)
    refuse_ungranted(tasks, settings.grants)
    if request.limits.max_cost_usd is not None and request.mode == "live":
        _print_prices(config, settings.model, request.limits.max_cost_usd)
    if not suite.bundled:
        _confirm_suite(suite, yes=request.yes, sandboxed=settings.sandbox != "none")
    begin = sweeping.record_sweep if request.verb == "record" else sweeping.begin_sweep
    return begin(suite, tasks, settings, world)


def make_settings(request: RunRequest, suite: Suite, tasks: Sequence[Task], config: Config, world: World) -> Settings:
    """Make the settings of the sweep.

    Raises:
        UsageError: a provider, a model, a price or a recorded sweep is missing, or the variants have mistakes.
    """
    live, replay_of = request.mode == "live", request.replay_of
    if live:
        k = request.k or 5
        provider, model = _find_model(config)
    else:
        config, provider, model = replaying.remove_provider(config), "replay", ""
        k, replay_of = replaying.count_repetitions(replay_of, suite, request.k, world)
    # A replay sends no requests: it costs nothing, and needs no price.
    nusd = options.to_nano_usd(request.limits.max_cost_usd) if live else None
    caps = Caps(calls=request.limits.max_calls, tokens=request.limits.max_tokens, nusd=nusd)
    return Settings(
        suite=suite.suite_id,
        tasks=tuple(task.id for task in tasks) if request.tasks else (),
        k=k,
        seed=request.seed,
        mode=request.mode,
        cassette_dir=options.resolve_directory(request.cassette_dir),
        replay_of=replay_of,
        provider=provider,
        model=model,
        base_url=config.base_url,
        api_key_env=config.api_key_env,
        context_window=config.context_window,
        fetch_private=config.fetch_private,
        agent=config.agent,
        agents=dict(config.definitions),
        config_hash=config_hash(config.agent),
        variants=_read_variants(request.variants, suite, config),
        grants=request.grants,
        caps=caps,
        prices=select_prices(caps, [model], config.prices),
        input_rate=request.model.input_rate,
        output_rate=request.model.output_rate,
        sandbox=options.parse_sandbox(request.sandbox),
        keep=request.keep,
        out=options.resolve_directory(request.out),
        **request.limits.given_terms(),
    )


def _check_mode(request: RunRequest) -> None:
    """Refuse an unknown mode, and flags that do not fit the mode."""
    mode = request.mode
    if mode not in ("live", "replay"):
        raise typer.BadParameter(f"expected live or replay, got {mode!r}", param_hint="--mode")
    if mode == "live" and request.replay_of is not None:
        raise typer.BadParameter("only with --mode replay", param_hint="--from")
    if mode == "replay" and (given := request.model.given_connection()):
        raise typer.BadParameter("a replay calls no provider: leave it out", param_hint=", ".join(given))


def _check_rates(flags: ModelFlags) -> None:
    """Refuse rates of the estimate that are no amounts, and one rate without the other."""
    if (flags.input_rate is None) != (flags.output_rate is None):
        raise typer.BadParameter("give both --input-rate and --output-rate, or neither", param_hint="--input-rate")
    for flag, rate in (("--input-rate", flags.input_rate), ("--output-rate", flags.output_rate)):
        if rate is None:
            continue
        try:
            fits = 0 <= Decimal(rate) <= MAX_RATE
        except InvalidOperation:
            fits = False
        if not fits:
            expected = f"expected USD per million tokens, 0 to {MAX_RATE:,}, got {rate!r}"
            raise typer.BadParameter(expected, param_hint=flag)


def _read_config(flags: ModelFlags, world: World) -> Config:
    """Read the configuration from its files, and apply the flags."""
    config = with_flags(
        with_prices(load_config(world.environment, Path.cwd(), flags.config, flags.trust_project), flags.prices),
        {
            "--provider": ("provider", flags.provider),
            "--model": ("model", flags.model),
            "--base-url": ("baseUrl", flags.base_url),
            "--api-key-env": ("apiKeyEnv", flags.api_key_env),
        },
    )
    if config.provider == "scripted" and config.model is None:
        return with_values(config, {"model": "scripted"}, "default")
    return config


def _print_settings(
    request: RunRequest, context: typer.Context, config: Config, tasks: Sequence[Task], world: World
) -> None:
    """Print every setting and its origin."""
    from orchestrator.cli.suite import print_config
    from orchestrator.suite.effective import resolve_effective

    environment = world.environment
    flags = [*print_config.flags_of(context), print_config.store_of(environment)]
    usable = frozenset(request.grants.list_usable_effects())
    print_config.print_effective(resolve_effective(config, flags, environment=environment, tasks=tasks, effects=usable))


def _read_variants(file: Path | None, suite: Suite, config: Config) -> tuple[Variant, ...]:
    """Read the variants to compare; empty without a *file*."""
    if file is None:
        return ()
    from orchestrator.suite.formats.variants_json import read_variants

    return read_variants(file, suite_id=suite.suite_id, agents=config.definitions)


def _find_model(config: Config) -> tuple[str, str]:
    """Return the names of the provider and the model."""
    provider = config.provider
    if provider is None:
        raise UsageError(
            "no provider is set: pass --provider openai (with --base-url and --model) or --provider scripted",
            "Or set `provider` in your config.json.",
        )
    find_provider(provider)  # an unknown provider is reported before a missing model
    if config.model is None:
        raise UsageError(f"no model is set for provider {provider!r}: pass --model")
    return provider, config.model


def _print_prices(config: Config, model: str, cap: Decimal) -> None:
    """Print the prices behind the cap and their origin: a wrong price makes a wrong cap."""
    tiers = ", ".join(f"{tier} {price}" for tier, price in config.prices[model].to_json().items())
    origin = config.origins[f"prices.{model}"]
    print_notice(f"at most {cap} USD, with {model} at {tiers} USD per million tokens ({origin})")


def _confirm_suite(suite: Suite, *, yes: bool, sandboxed: bool) -> None:
    """Warn that a suite which is not bundled runs its own code, and ask for confirmation unless *yes*.

    Raises:
        UsageError: stdin is no terminal.
        typer.Exit: the answer is no.
    """
    print_notice(format_trust_warning(suite.root, "tools it enables", sandboxed=sandboxed))
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "a suite from --suite-dir needs a confirmation, but stdin is no terminal",
            "Pass --yes if you trust it.",
        )
    if not ask_confirmation("Run it?"):
        raise typer.Exit(Exit.FAILED)
