"""How a command in a hint is to be typed: as this one was called, at the same store."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from orchestrator.cli.common import COMMON


def command(words: str, environment: Mapping[str, str]) -> str:
    """`evalctl WORDS`, with the path this process was called by where `evalctl` alone is another program or none, and
    with `--store` where it was given: a hint that is copied must not ask another store.
    """
    store = "" if COMMON.store is None else f" --store {shlex.quote(COMMON.store)}"
    return f"{_program(sys.argv[0], environment.get('PATH'))} {words}{store}"


def _program(called: str, path: str | None) -> str:
    if Path(called).name != "evalctl":
        return "evalctl"
    found = shutil.which("evalctl", path=path or "")
    same = found is not None and Path(found).absolute() == Path(called).absolute()
    return "evalctl" if same else shlex.quote(called)
