"""The contracts of `pyproject.toml` refuse what they are about: each module here is one that must not be written."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]

CHAIN = "one chain"
LAYERS = "layers of the orchestrator"
OUTSIDE = "layers of the providers"
WORKERS = "who works on a task"
WORDS = "providers and verifiers know"
PORTS = "executing a run needs ports"
SQLITE = "only the store's SQL modules"
DATA = "suites are data: nothing"
DATA_ALONE = "suites are data: they"
CIRCLES = "no circles"

FOR_A_TYPE = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import "

# Why it is refused: by which contract, the module, what it holds.
REFUSED = {
    "a kind imports its sister": (LAYERS, "orchestrator/suite/x.py", "import orchestrator.lab.model"),
    "a kind needs its sister's type": (LAYERS, "orchestrator/lab/x.py", f"{FOR_A_TYPE}orchestrator.suite.model"),
    "the engine imports a kind": (LAYERS, "orchestrator/engine/x.py", "import orchestrator.suite.model"),
    "the engine imports reports": (LAYERS, "orchestrator/engine/x.py", "import orchestrator.reports.phrases"),
    "words import an edge": (LAYERS, "orchestrator/text.py", "import orchestrator.files"),
    "a module has no layer": (LAYERS, "orchestrator/x.py", ""),
    "a provider has no layer": (OUTSIDE, "providers/x.py", ""),
    "the outside imports a port": (OUTSIDE, "providers/system/x.py", "import providers.base"),
    "the agent imports decision flows": (WORKERS, "providers/agent/x.py", "import providers.decisions.flow"),
    "a provider imports SQL": (WORDS, "providers/endpoints/x.py", "import store.sql.reader"),
    "a verifier imports SQL": (WORDS, "verifiers/x.py", "import store.sql.reader"),
    "a verifier imports the orchestrator": (CHAIN, "verifiers/x.py", "import orchestrator.text"),
    "the gate imports SQL": (PORTS, "orchestrator/engine/gate/x.py", "import store.sql.reader"),
    "a run reaches SQL by a detour": (PORTS, "orchestrator/lab/execute.py", "import orchestrator.engine.open_store"),
    "a report opens the store": (SQLITE, "orchestrator/reports/x.py", "import sqlite3"),
    "words of the store open it": (SQLITE, "store/x.py", "import aiosqlite"),
    "a module imports suites": (DATA, "orchestrator/suite/x.py", "import suites"),
    "a suite imports ours": (DATA_ALONE, "suites/x.py", "import store.rows"),
    "a package imports what imports it": (
        CIRCLES,
        "orchestrator/workspaces/git.py",
        f"{FOR_A_TYPE}orchestrator.workspaces.fixture",
    ),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages' modules, and of the contracts."""
    root = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            copy = root / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    shutil.copyfile(ROOT / "pyproject.toml", root / "pyproject.toml")
    return root


def broken_contracts(root: Path) -> list[str]:
    """The names of contracts that the tree breaks."""
    # the cache lies in the copy: a run reads again only what has changed
    ran = subprocess.run(
        [LINT_IMPORTS, "--cache-dir", root / "cache"], cwd=root, check=False, capture_output=True, text=True
    )
    broken = [line.partition(" BROKEN")[0] for line in ran.stdout.splitlines() if " BROKEN" in line]
    assert ran.returncode == (1 if broken else 0), ran.stdout + ran.stderr
    return broken


def test_the_tree_keeps_its_contracts(tree: Path) -> None:
    assert broken_contracts(tree) == []


@pytest.mark.parametrize("why", REFUSED)
def test_a_contract_refuses(tree: Path, why: str) -> None:
    contract, path, source = REFUSED[why]
    file = tree / path
    before = file.read_text() if file.exists() else None
    file.write_text(f"{before or ''}\n{source}\n")
    try:
        broken = broken_contracts(tree)
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_text(before)

    assert any(name.startswith(contract) for name in broken)
