"""Hints on the terminal: each command spelled as this process was called, at the same store."""

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
    """`evalctl WORDS`, with the path this process was called by where `evalctl` alone is another program or none, and
    with `--store` where it was given: a hint that is copied must not ask another store.
    """
    store = "" if COMMON.store is None else f" --store {shlex.quote(COMMON.store)}"
    return f"{_find_program(sys.argv[0], environment.get('PATH'))} {words}{store}"


def spell_line(line: Line, environment: Mapping[str, str]) -> str:
    """*line* as text, a hint with its whole command."""
    if not isinstance(line, Hint):
        return line
    remark = f"   {line.remark}" if line.remark else ""
    return f"{line.lead} {format_command(line.command, environment)}{remark}"


def print_lines(lines: Iterable[Line], environment: Mapping[str, str]) -> None:
    """Print *lines* to stdout, at once: a secret may lie across several."""
    if spelled := [spell_line(line, environment) for line in lines]:
        print_data(make_printable("\n".join(spelled), sys.stdout.encoding))


def _find_program(called: str, path: str | None) -> str:
    if Path(called).name != "evalctl":
        return "evalctl"
    found = shutil.which("evalctl", path=path or "")
    same = found is not None and Path(found).absolute() == Path(called).absolute()
    return "evalctl" if same else shlex.quote(called)
