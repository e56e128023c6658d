from pathlib import Path

import pytest

from orchestrator.lab.catalog import BUNDLED_LAB, LabPlace, find_lab
from store.errors import UsageError
from tests.orchestrator.lab.formats.labs import write_lab


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(lab_dir: Path | None, config: Path | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        find_lab(lab_dir, config)
    return str(caught.value)


def test_a_named_lab_goes_before_the_project_s_which_goes_before_the_bundled_one(here: Path) -> None:
    assert find_lab(None, None).root == BUNDLED_LAB
    project = write_lab(here / "config" / "lab")
    other = write_lab(here / "other")
    found = find_lab(None, None)
    assert (found.root.resolve(), found.bundled) == (project, False)
    assert find_lab(other, None) == LabPlace(root=other, config=other / "config.yaml", bundled=False)


def test_the_bundled_lab_is_known_by_whatever_name(here: Path) -> None:
    (here / "link").symlink_to(BUNDLED_LAB)
    assert find_lab(None, None).bundled
    assert find_lab(here / "link", None).bundled


def test_a_configuration_that_is_named_goes_before_the_lab_s_own(here: Path) -> None:
    root = write_lab(here / "lab")
    (here / "mine.yaml").write_text("", encoding="ascii")
    assert find_lab(root, here / "mine.yaml").config == here / "mine.yaml"


def test_what_is_not_there_is_told_in_one_message(here: Path) -> None:
    (here / "empty").mkdir()
    (here / "file").write_text("", encoding="ascii")
    expected = "\nExpected a lab.yaml in it, beside config.yaml and fixtures/."
    assert refusal(here / "no") == f"--lab-dir {here / 'no'}: no such directory"
    assert refusal(here / "file") == f"--lab-dir {here / 'file'}: not a directory"
    assert refusal(here / "empty") == f"--lab-dir {here / 'empty'}: no lab here{expected}"
    root = write_lab(here / "lab")
    assert refusal(root, here / "no.yaml") == f"--config {here / 'no.yaml'}: no such file"
    assert refusal(root, here) == f"--config {here}: not a file"


def test_a_project_s_folder_without_a_lab_does_not_fall_back_to_the_bundled_one(here: Path) -> None:
    (here / "config" / "lab").mkdir(parents=True)
    assert refusal(None).startswith("config/lab: no lab here\n")
