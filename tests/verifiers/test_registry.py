from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from store.errors import UsageError
from verifiers.registry import ENTRY_POINT_GROUP, KINDS, find_verifier


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A package of somebody else's that offers kinds; importable and with metadata, as an installer leaves it."""

    def install(name: str, kinds: dict[str, str], source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{kind} = {where}\n" for kind, where in kinds.items())
        (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{lines}")
        sys.modules.pop(name, None)

    monkeypatch.syspath_prepend(str(tmp_path))
    return install


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_built_in_kind_is_found_and_knows_its_name(kind: str) -> None:
    assert vars(find_verifier(kind))["kind"] == kind


def test_an_unknown_kind_names_the_nearest_and_all() -> None:
    with pytest.raises(UsageError) as failure:
        find_verifier("file-contain")
    assert "'file-contain'" in failure.value.problem
    assert "Did you mean 'file-contains'?" in failure.value.hint
    assert "tool-sequence" in failure.value.hint


def test_a_kind_of_another_package_is_found(installed: Callable[..., None]) -> None:
    installed("spelling_kind", {"spelling": "spelling_kind:Spelling"}, "class Spelling:\n    api_version = 1\n")
    assert find_verifier("spelling").__name__ == "Spelling"


def test_a_kind_of_another_api_version_is_refused(installed: Callable[..., None]) -> None:
    installed("old_kind", {"old": "old_kind:Old"}, "class Old:\n    api_version = 0\n")
    with pytest.raises(UsageError, match="has API version 0, expected 1"):
        find_verifier("old")


def test_a_package_that_does_not_load_breaks_only_its_own_kinds(installed: Callable[..., None]) -> None:
    installed("bad_kind", {"bad": "bad_kind:Bad"}, "raise RuntimeError('boom')\n")
    with pytest.raises(UsageError, match="does not load: RuntimeError: boom"):
        find_verifier("bad")
    assert vars(find_verifier("command"))["kind"] == "command"
    assert "bad" in entry_points(group=ENTRY_POINT_GROUP).names
