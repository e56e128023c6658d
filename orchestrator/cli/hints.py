"""Hints on the terminal: commands to copy, spelled with the program and the store of this process."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.cli.common import COMMON, print_data
from orchestrator.reports.hints import Hint, Line
from orchestrator.text import make_printable


def format_command(words: str, environment: Mapping[str, str]) -> str:
    """Format the command `evalctl WORDS` so that it can be copied.

    It has the path of this program if PATH does not lead to it, and `--store` if that was given: a copied hint must
    not read another store.
    """
    store = "" if COMMON.store is None else f" --store {shlex.quote(COMMON.store)}"
    return f"{_find_program(sys.argv[0], environment.get('PATH'))} {words}{store}"


def spell_line(line: Line, environment: Mapping[str, str]) -> str:
    """Return *line* as text, a hint with its whole command."""
    if not isinstance(line, Hint):
        return line
    remark = f"   {line.remark}" if line.remark else ""
    return f"{line.lead} {format_command(line.command, environment)}{remark}"


def print_lines(lines: Iterable[Line], environment: Mapping[str, str]) -> None:
    """Print *lines* on stdout in one call: a secret may span several lines, and masking must see all of it."""
    if spelled := [spell_line(line, environment) for line in lines]:
        print_data(make_printable("\n".join(spelled), sys.stdout.encoding))


def _find_program(called: str, path: str | None) -> str:
    if Path(called).name != "evalctl":
        return "evalctl"
    found = shutil.which("evalctl", path=path or "")
    same = found is not None and Path(found).absolute() == Path(called).absolute()
    return "evalctl" if same else shlex.quote(called)
