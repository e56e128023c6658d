"""The verb `resume`: finish the runs that a sweep has left."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli import options

RESUMERS = {
    "suite": "orchestrator.cli.suite.resuming:resume_sweep",
    "lab": "orchestrator.cli.lab.resuming:resume_sweep",
}
"""By the name of a kind, the function that finishes a sweep of it: takes a `ResumeRequest`, returns the exit code."""


def resume(  # noqa: PLR0917 - typer takes options by position
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="A sweep's name, a unique prefix, or `last`.")] = "last",
    errors: Annotated[
        bool,
        typer.Option(
            "--errors", help="Also run again what ended in an infrastructure error.", rich_help_panel=options.RUN_PANEL
        ),
    ] = False,
    cancelled: Annotated[
        bool, typer.Option("--cancelled", help="Also run what was cancelled.", rich_help_panel=options.RUN_PANEL)
    ] = False,
    base_url: options.BaseUrl = None,
    api_key_env: options.ApiKeyEnv = None,
    concurrency: options.Concurrency = None,
    max_calls: options.MaxCalls = None,
    max_tokens: options.MaxTokens = None,
    max_cost_usd: options.MaxCostUsd = None,
    prices: options.Prices = None,
    max_wall: options.MaxWall = None,
    rpm: options.Rpm = None,
    tpm: options.Tpm = None,
    max_wait: options.MaxWait = None,
    max_stall: options.MaxStall = None,
    keep: options.Keep = False,
    out: options.Out = None,
) -> None:
    """Finish SWEEP: the runs that have no final result, and no others.

    Plan, grants and settings come from the store; caps given here are new totals. Several processes may resume the same
    sweep and share its work. A paused sweep goes on; a cancelled one only with --cancelled. The exit code is that of
    the command that started the sweep.
    """
    from orchestrator.cli.resume_request import ResumeRequest
    from orchestrator.cli.sweep_setup import store_of
    from orchestrator.engine.caps import caps_of, prices_of
    from orchestrator.kinds import kind_of, load_attribute
    from orchestrator.world import real_world
    from providers.prices import table
    from store.sql.reader import Reader

    world = real_world()
    with Reader(store_of(world)) as reader:
        row = reader.find_sweep(sweep)
        commands = tuple(reader.list_commands(row.id))
        accounts = tuple(reader.list_worker_accounts(row.id))
    request = ResumeRequest(
        sweep=row,
        world=world,
        caps=caps_of(row, commands),
        new_caps=options.drop_unset(calls=max_calls, tokens=max_tokens, nusd=options.to_nano_usd(max_cost_usd)),
        prices=prices_of(row, commands),
        new_prices=table.load_prices(prices) if prices is not None else {},
        accounts=accounts,
        changes=options.drop_unset(
            base_url=base_url,
            api_key_env=api_key_env,
            concurrency=concurrency,
            max_wall_s=max_wall,
            rpm=rpm,
            tpm=tpm,
            max_wait_s=max_wait,
            max_stall_s=max_stall,
            keep=keep or None,
            out=options.resolve_directory(out),
        ),
        rerun_errors=errors,
        rerun_cancelled=cancelled,
    )
    raise typer.Exit(load_attribute(RESUMERS[kind_of(row).name])(request))
