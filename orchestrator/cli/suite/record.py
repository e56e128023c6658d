"""The verb `record`: run each task once and write its cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.common import Exit, print_notice

Bundled = Annotated[
    bool,
    typer.Option(
        "--bundled",
        help="Record the cassettes of the bundled suites again, with the scripted provider and an empty configuration.",
        rich_help_panel=options.RUN_PANEL,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="With --bundled: write DIR/SUITE/TASK.jsonl instead of changing the suites.",
        rich_help_panel=options.OUTPUT_PANEL,
    ),
]


def record(  # noqa: PLR0917 - typer takes options by position
    context: typer.Context,
    suite: options.SuiteName = None,
    tasks: options.Tasks = None,
    seed: options.Seed = 0,
    cassette_dir: options.CassetteDir = None,
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
    config: options.ConfigFile = None,
    trust_project: options.TrustProject = False,
    bundled: Bundled = False,
    out: Out = None,
) -> None:
    """Run each task of SUITE once, live, and write its cassette.

    A cassette holds the requests of the task and the answers of the provider; `run --mode replay` and `ci` play it. If
    one would hold a secret, the message names the field and nothing is written.
    """
    from orchestrator.cli.limits import LimitFlags
    from orchestrator.cli.suite.request import ModelFlags, RunRequest, make_grants
    from orchestrator.cli.suite.running import run_request

    if bundled:
        _refuse_other_flags(context)
        raise typer.Exit(_record_bundled(options.split_names(tasks), out))
    if out is not None:
        raise typer.BadParameter("only with --bundled; name the directory with --cassette-dir", param_hint="--out")
    request = RunRequest(
        verb="record",
        suite=suite,
        suite_dir=suite_dir,
        tasks=tasks,
        k=1,
        seed=seed,
        cassette_dir=cassette_dir,
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
    )
    raise typer.Exit(run_request(request, context))


def _refuse_other_flags(context: typer.Context) -> None:
    """Refuse other flags beside --bundled: the same bytes must come out wherever it is called."""
    given = [
        name
        for name in context.params
        if name not in ("bundled", "tasks", "out")
        and (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    ]
    if given:
        names = ", ".join("SUITE" if name == "suite" else f"--{name.replace('_', '-')}" for name in given)
        raise typer.BadParameter(f"combines only with --tasks and --out; leave out {names}", param_hint="--bundled")


def _record_bundled(tasks: tuple[str, ...], out: str | None) -> int:
    from orchestrator.suite.recordings.rehearsal import record_bundled
    from orchestrator.world import hide_environment, real_world

    hide_environment()
    whole = record_bundled(tasks, None if out is None else Path(out), real_world(), print_notice)
    return Exit.DONE if whole else Exit.FAILED
