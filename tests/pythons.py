"""Runs the quick half of the tests on every other Python that evalctl supports and this machine has.

    python -m tests.pythons

It needs nothing but the standard library, and says which interpreters it ran and which it did not find. Each gets an
environment of its own beside the usual one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = ((3, 11), (3, 12), (3, 13))


def find_interpreter(version: tuple[int, int]) -> str | None:
    """The path of a working interpreter of *version*: one on the PATH, or one that pyenv keeps."""
    name = f"python{version[0]}.{version[1]}"
    kept = (Path.home() / ".pyenv" / "versions").glob(f"{version[0]}.{version[1]}.*/bin/{name}")
    for candidate in (name, *sorted(map(str, kept), reverse=True)):
        try:
            asked = subprocess.run(
                [candidate, "-c", "import sys; print(sys.executable, *sys.version_info[:2])"],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        path, *found = asked.stdout.split()
        if found == [str(number) for number in version]:
            return path
    return None


def other_interpreters() -> Iterator[tuple[str, str | None]]:
    """Every supported version but the one that runs this, with its interpreter where there is one."""
    for version in SUPPORTED:
        if version != sys.version_info[:2]:
            yield f"{version[0]}.{version[1]}", find_interpreter(version)


def say(line: str) -> None:
    """Write a line at once, before what a test run writes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run them one after another; the exit code is that of the first that fails, else 0."""
    for version, interpreter in other_interpreters():
        if interpreter is None:
            say(f"Python {version}: not on this machine, not tested")
            continue
        say(f"Python {version}: {interpreter}")
        make = ["make", "--no-print-directory", f"VENV=.venv-{version}", f"PYTHON={interpreter}", "test-modules"]
        if code := subprocess.run(make, check=False).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
