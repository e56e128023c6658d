"""The verb `run`: run a suite k times per task, live or as a replay, and report."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli import options

Repetitions = Annotated[
    int | None,
    typer.Option(
        "--k",
        min=1,
        max=1_000_000,
        metavar="N",
        help="Repetitions of every task. [default: 5; in replay 1]",
        rich_help_panel=options.RUN_PANEL,
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="live|replay",
        help="live calls the provider; replay plays recordings without one.",
        rich_help_panel=options.RUN_PANEL,
    ),
]
ReplayOf = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="SWEEP",
        help="In replay: repeat this stored sweep instead of playing cassettes.",
        rich_help_panel=options.RUN_PANEL,
    ),
]


def run(  # noqa: PLR0917 - typer takes options by position
    context: typer.Context,
    suite: options.SuiteName = None,
    tasks: options.Tasks = None,
    k: Repetitions = None,
    seed: options.Seed = 0,
    mode: Mode = "live",
    cassette_dir: options.CassetteDir = None,
    replay_of: ReplayOf = None,
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
    """Run SUITE k times per task and report what passed.

    Every run works in a private copy of its fixture. Results are stored as they come: `evalctl resume` finishes a sweep
    that was stopped or killed.
    """
    from orchestrator.cli.limits import LimitFlags
    from orchestrator.cli.suite.request import ModelFlags, RunRequest, make_grants
    from orchestrator.cli.suite.running import run_request

    request = RunRequest(
        verb="run",
        suite=suite,
        suite_dir=suite_dir,
        tasks=tasks,
        k=k,
        seed=seed,
        mode=mode,
        cassette_dir=cassette_dir,
        replay_of=replay_of,
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
