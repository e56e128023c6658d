"""The product's folders and names keep the shape that a newcomer can read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from tests.house import ROOT, class_names, function_names, one_word_share, product_modules

MODULES = product_modules()
NAMES = function_names(MODULES)
ONE_WORD_SHARE = 0.03
"""It may fall, and does not grow."""
LINES_OF_A_MODULE = 450
MEDIAN_LINES = 130
MODULES_OF_A_FOLDER = 20
MODULES_OF_THE_ORCHESTRATOR = 16


def test_no_class_name_exists_twice() -> None:
    assert [name for name, count in class_names(MODULES).items() if count > 1] == []


def test_the_share_of_one_word_function_names_does_not_grow() -> None:
    assert one_word_share(NAMES) <= ONE_WORD_SHARE


def test_no_function_name_is_a_lone_past_participle() -> None:
    lone = [f"{name.module.relative_to(ROOT)}:{name.line} {name.name}" for name in NAMES if name.is_lone_participle]

    assert lone == []


def test_modules_are_short() -> None:
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}

    assert {path: count for path, count in lines.items() if count >= LINES_OF_A_MODULE} == {}
    assert median(lines.values()) < MEDIAN_LINES


def test_folders_are_small() -> None:
    folders = Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES if path.name != "__init__.py")

    assert {folder: count for folder, count in folders.items() if count > MODULES_OF_A_FOLDER} == {}
    assert folders["orchestrator"] <= MODULES_OF_THE_ORCHESTRATOR


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.name == "__init__.py"], ids=lambda path: path.parent.name
)
def test_a_package_says_what_it_is_and_exports_nothing(path: Path) -> None:
    source = path.read_text(encoding="utf-8").strip()

    assert source.startswith('"""')
    assert source.endswith('"""')
    assert source.count('"""') == 2
