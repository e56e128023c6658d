"""The typer application: explicit table of verbs, global flags before or after the verb."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from orchestrator.cli import common
from orchestrator.cli.common import (
    COMMON,
    EXIT_COMPARES,
    EXIT_LAB_LIVE,
    EXIT_LAB_OFFLINE,
    EXIT_READS,
    EXIT_REPLAYS,
    EXIT_RUNS,
    EXIT_SERVES,
    Exit,
)
from orchestrator.version import __version__

GLOBALS = {
    "--json": 0,
    "--store": 1,
    "--log-format": 1,
    "--no-color": 0,
    "-q": 0,
    "--quiet": 0,
    "-v": 0,
    "--verbose": 0,
}
"""Flags accepted anywhere, with the number of their values."""

VERBS = {
    "list": ("suite.suites:list_suites", EXIT_READS),
    "check": ("suite.suites:check", EXIT_READS),
    "gen-stress": ("suite.gen_stress:gen_stress", EXIT_READS),
    "run": ("suite.run:run", EXIT_RUNS),
    "variants": ("suite.variants:variants", EXIT_RUNS),
    "record": ("suite.record:record", EXIT_RUNS),
    "verify": ("suite.verify:verify", EXIT_READS),
    "ci": ("suite.ci:ci", EXIT_REPLAYS),
    "resume": ("sweeps.resume:resume", EXIT_RUNS),
    "status": ("sweeps.status:status", EXIT_READS),
    "show": ("sweeps.show:show", EXIT_READS),
    "compare": ("sweeps.compare:compare", EXIT_COMPARES),
    "export": ("suite.export:export", EXIT_READS),
    "pause": ("sweeps.commands:pause", EXIT_READS),
    "continue": ("sweeps.commands:go_on", EXIT_READS),
    "cancel": ("sweeps.commands:cancel", EXIT_READS),
}
"""Where each verb is, in the order of the help, and what it says of its exit codes."""

GROUPS = {
    "lab": (
        "Decision labs: cases that are run through decision flows, offline or against real backends.",
        {
            "check": ("lab.check:check", EXIT_READS),
            "offline": ("lab.offline:offline", EXIT_LAB_OFFLINE),
            "record": ("lab.record:record", EXIT_LAB_LIVE),
            "live": ("lab.live:live", EXIT_LAB_LIVE),
        },
    ),
    "hub": (
        "Decisions over HTTP, for programs of this machine.",
        {"serve": ("lab.hub:serve", EXIT_SERVES)},
    ),
}
"""Verbs that have verbs of their own: what they are about, and the same of each."""


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        common.out(f"evalctl {__version__}")
        raise typer.Exit


def evalctl(  # noqa: PLR0917 - typer takes options by position
    json: Annotated[bool, typer.Option("--json", help="Data on stdout as JSON, the rest on stderr.")] = False,
    store: Annotated[str | None, typer.Option("--store", metavar="FILE", help="The store to use.")] = None,
    log_format: Annotated[
        str, typer.Option("--log-format", metavar="console|json", help="How log lines look.")
    ] = "console",
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR does the same.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No notices, no progress.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log lines too.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version.")
    ] = False,
) -> None:
    """Answer with data whether a change made an LLM system better or worse.

    Global options may stand before or after the command.
    """
    if log_format not in ("console", "json"):
        raise typer.BadParameter("expected console or json", param_hint="--log-format")
    COMMON.json = json
    COMMON.store = store
    COMMON.log_format = log_format
    COMMON.color = not no_color and "NO_COLOR" not in os.environ  # noqa: TID251 - the edge where flags meet environment
    COMMON.verbosity = -1 if quiet else int(verbose)


def application(verbs: Iterable[str] = (*VERBS, *GROUPS), below: Iterable[str] | None = None) -> typer.Typer:
    """The application with these *verbs*. Each costs an import and a look at its options, even where it is not run.

    *below* names the verbs that are wanted of a group; None is all of them.
    """
    app = typer.Typer(
        name="evalctl",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        epilog=f"{EXIT_RUNS} Of compare also 3: the sides measured different suites or versions.",
    )
    app.callback()(evalctl)
    for verb in verbs:
        if verb in VERBS:
            _add(app, verb, *VERBS[verb])
            continue
        about, verbs_below = GROUPS[verb]
        group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about)
        for name in below if below is not None else verbs_below:
            _add(group, name, *verbs_below[name])
        # without a callback a group with one verb would be that verb
        group.callback()(_nothing)
        app.add_typer(group, name=verb)
    return app


def _add(app: typer.Typer, verb: str, place: str, codes: str) -> None:
    module, _, function = place.partition(":")
    app.command(verb, epilog=codes)(getattr(import_module(f"orchestrator.cli.{module}"), function))


def _nothing() -> None:
    pass


def _needed(arguments: list[str]) -> typer.Typer:
    """The application with the verb that is asked for; the help and a mistyped verb need all of them."""
    match arguments:
        case [verb, *_] if verb in VERBS:
            return application([verb])
        case [group, verb, *_] if group in GROUPS and verb in GROUPS[group][1]:
            return application([group], [verb])
        case [group, *_] if group in GROUPS:
            return application([group])
        case _:
            return application()


def hoist(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The global flags, which may stand anywhere before `--`, and the rest: the verb and what is its own."""
    front: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            rest += [argument, *waiting]
            break
        name = argument.partition("=")[0]
        if name in GLOBALS:
            front.append(argument)
            if GLOBALS[name] and "=" not in argument:
                front += [value for value in [next(waiting, None)] if value is not None]
        else:
            rest.append(argument)
    return front, rest


def run(arguments: list[str]) -> int:
    """Run one command; the exit code. Our own errors become one message here and nowhere else."""
    front, rest = hoist(arguments)
    app = _needed(rest)
    try:
        app(args=[*front, *rest], prog_name="evalctl", standalone_mode=True)
    except SystemExit as stop:
        # typer leaves usage errors with 2, which is kept for a replay that diverged
        code = stop.code if isinstance(stop.code, int) else Exit.FAILED
        return Exit.FAILED if code == 2 and not isinstance(code, Exit) else code
    except BrokenPipeError:
        sys.stderr.close()
        return Exit.FAILED
    except _our_errors() as error:
        common.complain(str(error))
        return Exit.FAILED
    return Exit.DONE


def _our_errors() -> type[Exception]:
    """What is raised on purpose. Asked for only when something was raised: `--help` does without the import."""
    from store.errors import EvalctlError

    return EvalctlError
