"""The verb `variants`: run a suite under several configurations and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import options

VariantsFile = Annotated[
    Path | None,
    typer.Option(
        "--variants",
        metavar="FILE",
        help="The variants to compare: a compare.json.",
        show_default=False,
        rich_help_panel=options.RUN_PANEL,
    ),
]
Repetitions = Annotated[
    int | None,
    typer.Option(
        "--k",
        min=1,
        max=1_000_000,
        metavar="N",
        help="Repetitions of every task. [default: 5]",
        rich_help_panel=options.RUN_PANEL,
    ),
]
LiveMode = Annotated[str, typer.Option("--mode", hidden=True)]
"""Variants run live only: `--mode live` is accepted, and `--mode replay` is refused with the reason."""


def variants(  # noqa: PLR0917 - typer takes options by position
    context: typer.Context,
    suite: options.SuiteName = None,
    variants: VariantsFile = None,
    tasks: options.Tasks = None,
    k: Repetitions = None,
    seed: options.Seed = 0,
    mode: LiveMode = "live",
    provider: options.ProviderName = None,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    api_key_env: options.ApiKeyEnv = None,
    concurrency: options.Concurrency = None,
    allow_write: options.AllowWrite = False,
    allow_process: options.AllowProcess = False,
    allow_external: options.AllowExternal = False,
    allow_analysis: options.AllowAnalysis = False,
    read_only: options.ReadOnly = False,
    allow_suite_full: options.AllowSuiteFull = False,
    suite_dir: options.SuiteDir = None,
    yes: options.Yes = False,
    max_calls: options.MaxCalls = None,
    max_tokens: options.MaxTokens = None,
    max_cost_usd: options.MaxCostUsd = None,
    prices: options.Prices = None,
    max_wall: options.MaxWall = None,
    rpm: options.Rpm = None,
    tpm: options.Tpm = None,
    max_wait: options.MaxWait = None,
    max_stall: options.MaxStall = None,
    input_rate: options.InputRate = None,
    output_rate: options.OutputRate = None,
    sandbox: options.Sandbox = "none",
    keep: options.Keep = False,
    out: options.Out = None,
    config: options.ConfigFile = None,
    trust_project: options.TrustProject = False,
    print_config: options.PrintConfig = False,
) -> None:
    """Run SUITE under two or more variants of the configuration and compare them.

    FILE names the suite and the variants, each with the measured keys that it changes; the first is the baseline. Runs
    of all variants are interleaved, with the same tasks, repetitions and seed. Each variant gets its own report
    directory, beside comparison.json and comparison.md. `evalctl resume` finishes a sweep that was stopped or killed.
    """
    from orchestrator.cli.limits import LimitFlags
    from orchestrator.cli.suite.request import ModelFlags, RunRequest, make_grants
    from orchestrator.cli.suite.running import run_request

    if mode == "replay":
        raise typer.BadParameter(
            "a replay repeats recorded answers, which no variant changes: variants run live only",
            param_hint="--mode",
        )
    if variants is None and not print_config:
        raise options.MissingParameter("option --variants")
    request = RunRequest(
        verb="variants",
        suite=suite,
        suite_dir=suite_dir,
        tasks=tasks,
        k=k,
        seed=seed,
        mode=mode,
        variants=variants,
        model=ModelFlags(
            provider=provider,
            model=model,
            base_url=base_url,
            api_key_env=api_key_env,
            config=config,
            trust_project=trust_project,
            prices=prices,
            input_rate=input_rate,
            output_rate=output_rate,
        ),
        limits=LimitFlags(
            concurrency=concurrency,
            max_calls=max_calls,
            max_tokens=max_tokens,
            max_cost_usd=max_cost_usd,
            max_wall=max_wall,
            rpm=rpm,
            tpm=tpm,
            max_wait=max_wait,
            max_stall=max_stall,
        ),
        grants=make_grants(
            write=allow_write,
            process=allow_process,
            external=allow_external,
            analysis=allow_analysis,
            read_only=read_only,
            suite_full=allow_suite_full,
        ),
        sandbox=sandbox,
        yes=yes,
        keep=keep,
        out=out,
        print_config=print_config,
    )
    raise typer.Exit(run_request(request, context))
