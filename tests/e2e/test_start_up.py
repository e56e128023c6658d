"""What the command may not import before it knows that it needs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from providers.registry import BUILT_IN_PROVIDERS
from tests.peers.driver import Driver

HEAVY = ("httpx", "rich", "structlog", "cattrs", "yaml", "asyncio", "aiosqlite", "pydantic", "rfc8785")
VERBS = (
    "list",
    "check",
    "gen-stress",
    "run",
    "variants",
    "record",
    "verify",
    "ci",
    "compare",
    "resume",
    "export",
    "status",
    "show",
    "pause",
    "continue",
    "cancel",
)
GROUPS = (("lab", "check"), ("lab", "offline"), ("lab", "record"), ("lab", "live"), ("hub", "serve"))
PROGRAM = """
import json, sys
sys.argv = ["evalctl", *sys.argv[1:]]
from orchestrator.cli.main import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
sys.stderr.write("\\n" + json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def imported(*arguments: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True, cwd=cwd, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("--help",), *((verb, "--help") for verb in VERBS), *((*verbs, "--help") for verbs in GROUPS)],
)
def test_asking_for_help_imports_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert imported(*arguments, cwd=tmp_path) & set(HEAVY) == set()


def test_the_version_imports_not_even_the_command_line(tmp_path: Path) -> None:
    assert imported("--version", cwd=tmp_path) & {"typer", "click", "attrs", "store", "sqlite3"} == set()


@pytest.mark.parametrize("verbs", [*((verb,) for verb in VERBS), *GROUPS])
def test_every_help_prints_the_exit_codes(evalctl: Driver, verbs: tuple[str, ...]) -> None:
    done = evalctl.run(*verbs, "--help")
    assert done.code == 0
    assert "Exit codes" in done.stdout


def test_the_help_of_run_names_every_provider(evalctl: Driver) -> None:
    words = " ".join(evalctl.run("run", "--help").stdout.split())
    assert [name for name in BUILT_IN_PROVIDERS if f"{name}," not in words and f"{name} (" not in words] == []
