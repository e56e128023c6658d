"""The typer application: its verbs from a table, global flags before or after the verb."""

from __future__ import annotations

import enum
import os
import sys
from typing import Annotated

import typer

from orchestrator.cli import common
from orchestrator.cli.command_group import make_group_class
from orchestrator.cli.common import COMMON, EXIT_RUNS, Exit
from orchestrator.cli.verbs import SECTIONS, Sections, usage_code_of
from orchestrator.version import __version__

GLOBAL_FLAGS = {
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


def show_version(wanted: bool) -> None:
    """Print the version and exit, if it is *wanted*."""
    if wanted:
        common.print_data(f"evalctl {__version__}")
        raise typer.Exit


def evalctl(  # noqa: PLR0917 - typer takes options by position
    json: Annotated[
        bool, typer.Option("--json", help="Print data as JSON on stdout, everything else on stderr.")
    ] = False,
    store: Annotated[str | None, typer.Option("--store", metavar="FILE", help="Use this store.")] = None,
    log_format: Annotated[
        str, typer.Option("--log-format", metavar="console|json", help="Format of log lines.")
    ] = "console",
    no_color: Annotated[bool, typer.Option("--no-color", help="Print no colours, as with NO_COLOR set.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print no notices and no progress.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print log lines too.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version.")
    ] = False,
) -> None:
    """Measure whether a change made an LLM system better or worse.

    Global options may stand before or after the command.
    """
    if log_format not in ("console", "json"):
        raise typer.BadParameter("expected console or json", param_hint="--log-format")
    COMMON.json = json
    COMMON.store = store
    COMMON.log_format = log_format
    COMMON.color = not no_color and "NO_COLOR" not in os.environ  # noqa: TID251 - the edge where flags meet environment
    COMMON.verbosity = -1 if quiet else int(verbose)


def make_application(sections: Sections = SECTIONS) -> typer.Typer:
    """Make the application with the verbs in *sections*; none of them is imported yet."""
    app = typer.Typer(
        name="evalctl",
        cls=make_group_class(sections),
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        epilog=f"{EXIT_RUNS} compare: 3 if the sides measured different suites or versions.",
    )
    app.callback()(evalctl)
    return app


def hoist_globals(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split *arguments* into the global flags, which may stand anywhere before `--`, and the verb with its own."""
    front: list[str] = []
    rest: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            rest += [argument, *remaining]
            break
        name = argument.partition("=")[0]
        if name in GLOBAL_FLAGS:
            front.append(argument)
            if GLOBAL_FLAGS[name] and "=" not in argument:
                front += [value for value in [next(remaining, None)] if value is not None]
        else:
            rest.append(argument)
    return front, rest


def run_command(arguments: list[str], sections: Sections = SECTIONS) -> int:
    """Run one command and return its exit code. Errors raised on purpose become one message here, and only here."""
    front, rest = hoist_globals(arguments)
    try:
        make_application(sections)(args=[*front, *rest], prog_name="evalctl", standalone_mode=True)
    except SystemExit as stop:
        # typer ends usage errors with the plain integer 2; verbs return members of an enumeration
        code = stop.code if isinstance(stop.code, int) else Exit.FAILED
        return usage_code_of(rest, sections) if code == 2 and not isinstance(code, enum.IntEnum) else code
    except BrokenPipeError:
        sys.stderr.close()
        return Exit.FAILED
    except _expected_errors() as error:
        common.print_error(str(error))
        return usage_code_of(rest, sections) if _is_usage_error(error) else Exit.FAILED
    return Exit.DONE


def _expected_errors() -> type[Exception]:
    """Return the base of the errors raised on purpose. Imported only after an error: `--help` does without it."""
    from store.errors import EvalctlError

    return EvalctlError


def _is_usage_error(error: Exception) -> bool:
    from store.errors import UsageError

    return isinstance(error, UsageError)
