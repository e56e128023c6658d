"""The verb `run`: a suite, k times per task, live or played back, with a report."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.common import Exit, confirmed, not_ours, say

if TYPE_CHECKING:
    from decimal import Decimal

    from orchestrator.suite.config import Config
    from orchestrator.suite.effects import Grants
    from orchestrator.suite.model import Suite, Task
    from orchestrator.suite.variant import Variant
    from providers.base import Effect

LARGEST_SEED = 2**53 - 1
"""What every reader of JSON takes for the same number."""
VARIANTS = "evalctl.variants"
"""Where the verb `variants` leaves the path of its file in the context that it shares with this one."""
RECORD = "evalctl.record"
"""What the verb `record` leaves there: the one run of each task is recorded."""
DEAREST = 1_000_000
"""USD per million tokens."""


def run(  # noqa: PLR0917 - typer takes options by position
    context: typer.Context,
    suite: Annotated[
        str | None,
        typer.Argument(metavar="SUITE", help="A suite's id or the name of its directory.", show_default=False),
    ] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", metavar="ID,ID", help="Only these tasks.")] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k", min=1, max=1_000_000, metavar="N", help="Repetitions of every task. [default: 5; in replay 1]"
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=-LARGEST_SEED,
            max=LARGEST_SEED,
            metavar="N",
            help="Seed of the run order; never sent to the provider.",
        ),
    ] = 0,
    mode: Annotated[
        str,
        typer.Option(
            "--mode", metavar="live|replay", help="live asks the provider; replay plays recordings, without one."
        ),
    ] = "live",
    cassette_dir: options.CassetteDir = None,
    replay_of: Annotated[
        str | None,
        typer.Option("--from", metavar="SWEEP", help="In replay: repeat this stored sweep, not cassettes."),
    ] = None,
    provider: options.ProviderName = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model to ask.")] = None,
    base_url: options.BaseUrl = None,
    api_key_env: options.ApiKeyEnv = None,
    concurrency: options.Concurrency = None,
    allow_write: Annotated[bool, typer.Option("--allow-write", help="Grant the effect write.")] = False,
    allow_process: Annotated[bool, typer.Option("--allow-process", help="Grant the effect process.")] = False,
    allow_external: Annotated[bool, typer.Option("--allow-external", help="Grant the effect external.")] = False,
    allow_analysis: Annotated[bool, typer.Option("--allow-analysis", help="Grant the effect analysis.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Grant nothing but reading.")] = False,
    allow_suite_full: Annotated[
        bool, typer.Option("--allow-suite-full", help="Let tasks with mode full use all that is granted.")
    ] = False,
    suite_dir: Annotated[
        Path | None, typer.Option("--suite-dir", metavar="DIR", help="A suite, or a directory of suites, of your own.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run a --suite-dir suite without asking.")] = False,
    max_calls: options.MaxCalls = None,
    max_tokens: options.MaxTokens = None,
    max_cost_usd: options.MaxCostUsd = None,
    prices: options.Prices = None,
    max_wall: options.MaxWall = None,
    rpm: options.Rpm = None,
    tpm: options.Tpm = None,
    max_wait: options.MaxWait = None,
    max_stall: options.MaxStall = None,
    input_rate: Annotated[
        str | None, typer.Option("--input-rate", metavar="USD", help="USD per million input tokens; for the estimate.")
    ] = None,
    output_rate: Annotated[
        str | None, typer.Option("--output-rate", metavar="USD", help="The same for output; both or neither.")
    ] = None,
    sandbox: options.Sandbox = "none",
    keep: options.Keep = False,
    out: options.Out = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Use this file instead of the project's.")
    ] = None,
    trust_project: Annotated[
        bool, typer.Option("--trust-project", help="Let the project's file name provider, endpoint and key variable.")
    ] = False,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config", help="Show every setting and where it comes from, with or without a SUITE; run nothing."
        ),
    ] = False,
) -> None:
    """Run SUITE k times per task and report what passed.

    Every run works in a private copy of its fixture. Results are stored as they come; a sweep that was stopped or
    killed goes on with `evalctl resume`.
    """
    from orchestrator.cli.suite import replaying, sweeping
    from orchestrator.engine.caps import prices_of_asked
    from orchestrator.measured import config_hash
    from orchestrator.suite.catalog import find_suite
    from orchestrator.suite.config import load_config, with_flags, with_prices, with_values
    from orchestrator.suite.effects import Grants, refuse_ungranted
    from orchestrator.suite.plan import choose
    from orchestrator.suite.settings import Settings
    from orchestrator.world import real_world
    from store.rows import Caps

    _check_mode(mode, replay_of, provider=provider, model=model, base_url=base_url, api_key_env=api_key_env)
    confined = options.kind_of_sandbox(sandbox)
    world = real_world()
    rates = _rates(input_rate, output_rate)
    if suite is None and not print_config:
        raise typer.BadParameter("it is missing", param_hint="SUITE")
    chosen = find_suite(suite, suite_dir) if suite is not None else None
    wanted = choose(chosen, options.names(tasks)) if chosen is not None else ()
    found = with_flags(
        with_prices(load_config(world.environment, Path.cwd(), config, trust_project), prices),
        {
            "--provider": ("provider", provider),
            "--model": ("model", model),
            "--base-url": ("baseUrl", base_url),
            "--api-key-env": ("apiKeyEnv", api_key_env),
        },
    )
    if found.provider == "scripted" and found.model is None:
        found = with_values(found, {"model": "scripted"}, "default")
    grants = Grants(
        effects=_effects(write=allow_write, process=allow_process, external=allow_external, analysis=allow_analysis),
        read_only=read_only,
        suite_full=allow_suite_full,
    )
    if chosen is None or print_config:
        _print(context, found, wanted, grants, world.environment)
        return
    if mode == "replay":
        found = replaying.without_provider(found)
        repetitions, replay_of = replaying.repetitions(replay_of, chosen, k, world)
    else:
        repetitions = k or (1 if RECORD in context.meta else 5)
    asked_provider, asked_model = _who(found) if mode == "live" else ("replay", "")
    # A replay asks nobody: there is nothing to pay, and no price to know.
    caps = Caps(calls=max_calls, tokens=max_tokens, nusd=options.nusd(max_cost_usd) if mode == "live" else None)
    settings = Settings(
        suite=chosen.suite_id,
        tasks=tuple(task.id for task in wanted) if tasks else (),
        k=repetitions,
        seed=seed,
        mode=mode,
        cassette_dir=options.directory(cassette_dir),
        replay_of=replay_of,
        provider=asked_provider,
        model=asked_model,
        base_url=found.base_url,
        api_key_env=found.api_key_env,
        context_window=found.context_window,
        fetch_private=found.fetch_private,
        agent=found.agent,
        agents=dict(found.definitions),
        config_hash=config_hash(found.agent),
        variants=_variants(context.meta.get(VARIANTS), chosen, found),
        grants=grants,
        caps=caps,
        prices=prices_of_asked(caps, [asked_model], found.prices),
        max_wall_s=max_wall,
        input_rate=rates[0],
        output_rate=rates[1],
        sandbox=confined,
        keep=keep,
        out=options.directory(out),
        **options.given(concurrency=concurrency, rpm=rpm, tpm=tpm, max_wait_s=max_wait, max_stall_s=max_stall),
    )
    refuse_ungranted(wanted, settings.grants)
    if max_cost_usd is not None and mode == "live":
        _tell_prices(found, asked_model, max_cost_usd)
    if not chosen.bundled:
        _confirm(chosen, yes=yes, sandboxed=settings.sandbox != "none")
    begin = sweeping.record if RECORD in context.meta else sweeping.begin
    raise typer.Exit(begin(chosen, wanted, settings, world))


def _check_mode(mode: str, replay_of: str | None, **asking: str | None) -> None:
    """The mode, and what goes with it."""
    if mode not in ("live", "replay"):
        raise typer.BadParameter(f"expected live or replay, got {mode!r}", param_hint="--mode")
    if mode == "live" and replay_of is not None:
        raise typer.BadParameter("only with --mode replay", param_hint="--from")
    given = [f"--{name.replace('_', '-')}" for name, value in asking.items() if value is not None]
    if mode == "replay" and given:
        raise typer.BadParameter("a replay asks nobody: leave it out", param_hint=", ".join(given))


def _print(
    context: typer.Context, config: Config, tasks: Sequence[Task], grants: Grants, environment: Mapping[str, str]
) -> None:
    """What would be done, in place of doing it."""
    from orchestrator.cli.suite import print_config
    from orchestrator.suite.effective import effective

    flags = [*print_config.flags_of(context), print_config.store_of(environment)]
    print_config.show(
        effective(config, flags, environment=environment, tasks=tasks, effects=frozenset(grants.usable()))
    )


def _variants(file: Path | None, suite: Suite, config: Config) -> tuple[Variant, ...]:
    """What is compared; nothing where no *file* says so."""
    if file is None:
        return ()
    from orchestrator.suite.formats.variants_json import read_variants

    return read_variants(file, suite_id=suite.suite_id, agents=config.definitions)


def _who(config: Config) -> tuple[str, str]:
    """The provider and the model to ask."""
    from providers.registry import find_provider
    from store.errors import UsageError

    provider = config.provider
    if provider is None:
        raise UsageError(
            "no provider: pass --provider openai (with --base-url and --model) or --provider scripted",
            "Or set `provider` in your config.json.",
        )
    find_provider(provider)  # an unknown name is told before a missing model
    if config.model is None:
        raise UsageError(f"no model for provider {provider!r}: pass --model")
    return provider, config.model


def _effects(**granted: bool) -> frozenset[Effect]:
    return frozenset(effect for effect, given in granted.items() if given)  # type: ignore[misc]  # names of Effect


def _rates(input_rate: str | None, output_rate: str | None) -> tuple[str | None, str | None]:
    from decimal import Decimal, InvalidOperation

    if (input_rate is None) != (output_rate is None):
        raise typer.BadParameter("both --input-rate and --output-rate, or neither", param_hint="--input-rate")
    for flag, rate in (("--input-rate", input_rate), ("--output-rate", output_rate)):
        if rate is None:
            continue
        try:
            fits = 0 <= Decimal(rate) <= DEAREST
        except InvalidOperation:
            fits = False
        if not fits:
            raise typer.BadParameter(
                f"expected USD per million tokens, 0 to {DEAREST:,}, got {rate!r}", param_hint=flag
            )
    return input_rate, output_rate


def _tell_prices(config: Config, model: str, cap: Decimal) -> None:
    """A cap is as good as the prices it is reckoned with: say which they are, and where they come from."""
    tiers = ", ".join(f"{tier} {price}" for tier, price in config.prices[model].to_json().items())
    origin = config.origins[f"prices.{model}"]
    say(f"at most {cap} USD, with {model} at {tiers} USD per million tokens ({origin})")


def _confirm(suite: Suite, *, yes: bool, sandboxed: bool) -> None:
    """A suite of somebody else's is code: warn, and go on only with a yes."""
    from store.errors import UsageError

    say(not_ours(suite.root, "tools it enables", sandboxed=sandboxed))
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "a suite from --suite-dir needs a confirmation, and there is no terminal to ask at",
            "Pass --yes if you trust it.",
        )
    if not confirmed("Run it?"):
        raise typer.Exit(Exit.FAILED)
