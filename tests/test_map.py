"""ARCHITECTURE.md has a place for every module, so that a newcomer finds one by what it is about.

What a registry names is found there: a new provider or verifier needs no word on the map.
"""

import re
from pathlib import Path

import pytest

from providers.registry import BUILT_IN
from verifiers.registry import KINDS

ROOT = Path(__file__).parents[1]
MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Map")[2].partition("\n## ")[0]
REGISTERED = {where.partition(":")[0] for where in (*BUILT_IN.values(), *KINDS.values())}


def named(folder):
    """What the folder's part of the map names, packages with a slash."""
    part = MAP.partition(f"### `{folder}/`")[2].partition("### ")[0]
    cells = [row.split("|")[2] for row in part.splitlines() if row.count("|") == 3]
    return {name for cell in cells for name in re.findall(r"`([a-z_]+/?)`", cell)}


@pytest.mark.parametrize("folder", ["orchestrator", "providers", "verifiers", "store"])
def test_every_module_and_package_of_a_folder_has_its_place_on_the_map(folder):
    modules = {path.stem for path in (ROOT / folder).glob("*.py") if f"{folder}.{path.stem}" not in REGISTERED}
    packages = {f"{path.parent.name}/" for path in (ROOT / folder).glob("*/__init__.py")}

    assert (modules | packages) - named(folder) == {"__init__"}


@pytest.mark.parametrize("folder", ["orchestrator", "providers", "verifiers", "store"])
def test_the_map_names_nothing_that_is_not_there(folder):
    there = {name for name in named(folder) if name.endswith("/") and (ROOT / folder / name).is_dir()}
    there |= {name for name in named(folder) if (ROOT / folder / f"{name}.py").is_file()}

    assert named(folder) - there - {"export"} == set()
