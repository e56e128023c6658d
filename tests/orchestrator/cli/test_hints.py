import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.common import COMMON
from orchestrator.cli.hints import command


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`called(path)`: this process was started as *path*; an `evalctl` is in the folder that comes back."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "evalctl").touch(mode=0o755)

    def by(path: str | Path) -> Path:
        monkeypatch.setattr(sys, "argv", [str(path)])
        return folder

    return by


def test_a_command_on_the_path_is_typed_by_its_name(
    called: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(COMMON, "store", None)
    folder = called(tmp_path / "bin" / "evalctl")
    assert command("show last", {"PATH": str(folder)}) == "evalctl show last"


@pytest.mark.parametrize("on_path", [True, False])
def test_another_one_is_typed_as_it_was_called(
    called: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, on_path: bool
) -> None:
    monkeypatch.setattr(COMMON, "store", None)
    folder = called(".venv/bin/evalctl")
    assert command("show last", {"PATH": str(folder)} if on_path else {}) == ".venv/bin/evalctl show last"


def test_a_store_that_was_given_is_given_again_and_quoted(
    called: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COMMON, "store", "my runs.db")
    called("anything")
    assert command("resume last", {}) == "evalctl resume last --store 'my runs.db'"
