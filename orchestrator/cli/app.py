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


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        common.print_data(f"evalctl {__version__}")
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


def make_application(sections: Sections = SECTIONS) -> typer.Typer:
    """The application with the verbs in *sections*, none of which is imported yet."""
    app = typer.Typer(
        name="evalctl",
        cls=make_group_class(sections),
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        epilog=f"{EXIT_RUNS} Of compare also 3: the sides measured different suites or versions.",
    )
    app.callback()(evalctl)
    return app


def hoist_globals(arguments: list[str]) -> tuple[list[str], list[str]]:
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


def run_command(arguments: list[str], sections: Sections = SECTIONS) -> int:
    """Run one command; the exit code. Our own errors become one message here and nowhere else."""
    front, rest = hoist_globals(arguments)
    try:
        make_application(sections)(args=[*front, *rest], prog_name="evalctl", standalone_mode=True)
    except SystemExit as stop:
        # typer ends usage errors with a plain 2; a verb's own codes are members of an enumeration
        code = stop.code if isinstance(stop.code, int) else Exit.FAILED
        return usage_code_of(rest, sections) if code == 2 and not isinstance(code, enum.IntEnum) else code
    except BrokenPipeError:
        sys.stderr.close()
        return Exit.FAILED
    except _our_errors() as error:
        common.print_error(str(error))
        return usage_code_of(rest, sections) if _is_usage_error(error) else Exit.FAILED
    return Exit.DONE


def _our_errors() -> type[Exception]:
    """What is raised on purpose. Asked for only when something was raised: `--help` does without the import."""
    from store.errors import EvalctlError

    return EvalctlError


def _is_usage_error(error: Exception) -> bool:
    from store.errors import UsageError

    return isinstance(error, UsageError)
