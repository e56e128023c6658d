"""The verb `resume`: finish what a sweep has left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import options


def resume(  # noqa: PLR0917 - typer takes options by position
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="A sweep's name, a unique prefix, or last.")] = "last",
    errors: Annotated[
        bool, typer.Option("--errors", help="Run again, too, what had ended in an infrastructural error.")
    ] = False,
    cancelled: Annotated[bool, typer.Option("--cancelled", help="Run what was cancelled after all.")] = False,
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
    the sweep's own command.
    """
    import attrs

    from orchestrator.cli.suite import sweeping
    from orchestrator.cli.surroundings import store_of
    from orchestrator.engine.caps import caps_of, prices_of, prices_of_asked, refuse_uncounted
    from orchestrator.reports.conditions import is_lab
    from orchestrator.suite.catalog import find_again
    from orchestrator.suite.settings import Settings
    from orchestrator.world import real_world
    from providers.prices import table
    from store.sql.reader import Reader

    world = real_world()
    with Reader(store_of(world)) as reader:
        row = reader.sweep(sweep)
        of_lab = is_lab(row)
        controls = tuple(reader.control(row.id))
        caps = caps_of(row, controls)
        wanted = options.given(calls=max_calls, tokens=max_tokens, nusd=options.nusd(max_cost_usd))
        if caps.nusd is None and "nusd" in wanted and not of_lab:
            refuse_uncounted(reader.accounts(row.id))
    if of_lab:
        _refuse_of_lab({"--base-url": base_url, "--api-key-env": api_key_env, "--keep": keep or None})
    changes = options.given(
        base_url=base_url,
        api_key_env=api_key_env,
        concurrency=concurrency,
        max_wall_s=max_wall,
        rpm=rpm,
        tpm=tpm,
        max_wait_s=max_wait,
        max_stall_s=max_stall,
        keep=keep or None,
        out=options.directory(out),
    )
    stored = attrs.evolve(Settings.from_json(row.conditions["settings"]), caps=caps, prices=prices_of(row, controls))
    caps = attrs.evolve(caps, **wanted)
    known = {**stored.prices, **(table.load(prices) if prices is not None else {})}
    asked = known if of_lab else prices_of_asked(caps, [stored.model], known)
    settings = attrs.evolve(stored, caps=caps, prices=asked, **changes)
    raised = (caps, asked) != (stored.caps, stored.prices)
    if of_lab:
        from orchestrator.cli.lab import resuming as lab_resuming

        code = lab_resuming.resume(row, settings, world, raised=raised, errors=errors, cancelled=cancelled)
        raise typer.Exit(code)
    planned = row.conditions["suite"]
    suite = find_again(planned["id"], Path(planned["root"]), bundled=planned["bundled"])
    raise typer.Exit(sweeping.go_on(suite, settings, world, row, raised=raised, errors=errors, cancelled=cancelled))


def _refuse_of_lab(flags: dict[str, object]) -> None:
    """What makes no sense for a lab, whose backends its own configuration names."""
    given = [flag for flag, value in flags.items() if value is not None]
    if given:
        raise typer.BadParameter("is not for a lab's sweep: its config.yaml says who is asked", param_hint=given[0])
