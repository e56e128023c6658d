"""bubblewrap, the sandbox: a program of the system's package manager, which nothing here may install.

On Debian and its relatives: `apt-get install bubblewrap`.
"""

from __future__ import annotations

import shutil
import subprocess


def install() -> str | None:
    """None where bwrap is there and can make namespaces, else why not."""
    program = shutil.which("bwrap")
    if program is None:
        return "there is no bwrap on PATH: install the package bubblewrap"
    argv = [program, "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    return None if done.returncode == 0 else f"bwrap cannot make namespaces here: {done.stderr.strip()[:200]}"
