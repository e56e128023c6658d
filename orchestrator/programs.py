"""Programs that a configuration names: checks that they exist and can run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from providers.system.paths import PathEscapes, keep_absolute_entries, resolve_inside
from store.documents.structure import describe_value


def find_program_fault(program: str, *, base: Path, path: str | None) -> str | None:
    """Find the reason why *program* cannot be started; None if it can.

    A name with a `/` is absolute, or relative to *base* and inside it; any other name is looked up on *path*. If *path*
    is None, only the spelling is checked.
    """
    if not program.strip():
        return f"expected a program, got {describe_value(program)}"
    if "/" not in program:
        exists = path is None or shutil.which(program, path=keep_absolute_entries(path)) is not None
        return None if exists else f"there is no program {describe_value(program)} on the PATH"
    file, where = Path(program), ""
    if not file.is_absolute():
        try:
            file, where = resolve_inside(base, program), f" in {base}"
        except PathEscapes as error:
            return f"{describe_value(program)} {error.problem}"
    if path is None:
        return None
    if not file.is_file():
        return f"there is no file {describe_value(program)}{where}"
    return None if os.access(file, os.X_OK) else f"{describe_value(program)} is not executable"
