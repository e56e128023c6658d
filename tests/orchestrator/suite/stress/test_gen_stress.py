"""The verb gen-stress: what it writes, and what it leaves alone."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestrator.cli.app import make_application, run_command
from orchestrator.installation import BUNDLED
from orchestrator.suite.stress.suites import LONG_CONTEXT, STRESS, make_long_context, make_long_context_stress
from orchestrator.suite.stress.target import check_own, find_bundled_directory, is_checkout
from orchestrator.suite.stress.writing import LISTING_FILE, Changes, apply_changes, plan_changes, render_listing
from store.errors import UsageError

FILES = {"suite.json": "{}\n", "scripts/a.json": "a\n", "fixtures/a/one.txt": "1\n", "fixtures/b/two.txt": "2\n"}
FEWER = {"suite.json": "[]\n", "scripts/a.json": "a\n", "fixtures/a/one.txt": "1\n"}


def put(directory: Path, files: dict[str, str]) -> Changes:
    changes = plan_changes(directory, files)
    apply_changes(changes)
    return changes


def tree(directory: Path) -> dict[str, str]:
    return {file.relative_to(directory).as_posix(): file.read_text() for file in directory.rglob("*") if file.is_file()}


def cli(*arguments: int | str | Path) -> Result:
    return CliRunner().invoke(make_application(), [str(argument) for argument in arguments])


# --- writing ------------------------------------------------------------------------------------------------------


def test_what_is_written_is_the_files_and_their_list(tmp_path: Path) -> None:
    changes = put(tmp_path / "new" / "suite", FILES)
    assert (len(changes.write), changes.remove, changes.unchanged) == (4, (), 0)
    assert tree(tmp_path / "new" / "suite") == {**FILES, LISTING_FILE: render_listing(FILES)}


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    stamps = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.txt")}
    again = put(tmp_path, FILES)
    assert (again.write, again.remove, again.unchanged) == ({}, (), 4)
    assert stamps == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.txt")}


def test_what_is_no_longer_generated_is_taken_back_and_its_empty_directory_too(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    changes = put(tmp_path, FEWER)
    assert (list(changes.write), changes.remove) == (["suite.json"], ("fixtures/b/two.txt",))
    assert tree(tmp_path) == {**FEWER, LISTING_FILE: render_listing(FEWER)}
    assert not (tmp_path / "fixtures" / "b").exists()


def test_files_of_somebody_else_stay_wherever_they_lie(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "a.jsonl").write_text("mine")
    (tmp_path / "fixtures" / "b" / "two.txt").write_text("changed")
    put(tmp_path, FEWER)
    assert tree(tmp_path) == {
        **FEWER,
        LISTING_FILE: render_listing(FEWER),
        "notes.txt": "mine",
        "cassettes/a.jsonl": "mine",
        "fixtures/b/two.txt": "changed",
    }


@pytest.mark.parametrize("mine", ["suite.json", "fixtures/a/one.txt"])
def test_a_file_that_was_not_generated_is_named_and_nothing_is_written(tmp_path: Path, mine: str) -> None:
    (tmp_path / mine).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / mine).write_text("mine")
    with pytest.raises(UsageError, match=rf"(?s)not generated.*\n  {mine}\nNothing was written"):
        plan_changes(tmp_path, FILES)
    assert tree(tmp_path) == {mine: "mine"}


def test_a_generated_file_that_was_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    (tmp_path / "fixtures" / "a" / "one.txt").write_text("changed")
    with pytest.raises(UsageError, match=r"changed since:\n  fixtures/a/one.txt\n"):
        plan_changes(tmp_path, FILES)
    (tmp_path / "fixtures" / "a" / "one.txt").unlink()
    assert put(tmp_path, FILES).unchanged == 3


def test_a_write_that_was_broken_off_can_be_made_again(tmp_path: Path) -> None:
    put(tmp_path, FEWER)
    (tmp_path / "fixtures" / "b").mkdir()
    (tmp_path / "fixtures" / "b" / "two.txt").write_text(FILES["fixtures/b/two.txt"])
    (tmp_path / "suite.json").write_text(FILES["suite.json"])
    put(tmp_path, FILES)
    assert tree(tmp_path) == {**FILES, LISTING_FILE: render_listing(FILES)}


def test_links_are_never_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "suite.json").write_text("mine")
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "suite.json").symlink_to(outside / "suite.json")
    (suite / "fixtures").symlink_to(outside)
    with pytest.raises(UsageError, match=r"  suite.json\n  fixtures/a/one.txt\n  fixtures/b/two.txt\n"):
        plan_changes(suite, FILES)
    assert tree(outside) == {"suite.json": "mine"}


def test_a_directory_in_the_place_of_a_file_and_the_other_way_round_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "suite.json").mkdir()
    (tmp_path / "scripts").write_text("mine")
    with pytest.raises(UsageError, match=r"  suite.json\n  scripts/a.json\n"):
        plan_changes(tmp_path, FILES)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"schema": "other/1", "files": {}}', '{"schema": "evalctl.generated/1"}']
)
def test_a_foreign_list_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / LISTING_FILE).write_text(content)
    with pytest.raises(UsageError, match="not a list of generated files"):
        plan_changes(tmp_path, FILES)


def test_a_list_cannot_ask_for_files_elsewhere_to_be_removed(tmp_path: Path) -> None:
    secret = tmp_path / "mine.txt"
    secret.write_text("1\n")
    suite = tmp_path / "suite"
    lie = render_listing(
        {"../mine.txt": "1\n", "fixtures/../../mine.txt": "1\n", "mine.txt": "1\n", str(secret): "1\n"}
    )
    suite.mkdir()
    (suite / LISTING_FILE).write_text(lie)
    (suite / "mine.txt").write_text("1\n")
    assert put(suite, FILES).remove == ()
    assert secret.exists()
    assert (suite / "mine.txt").exists()


def test_a_file_in_the_place_of_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is not a directory"):
        plan_changes(tmp_path / "file", FILES)


# --- where --------------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the suites where packages are installed."""
    suites = tmp_path / "lib" / "site-packages" / "suites"
    shutil.copytree(BUNDLED / "demo", suites / "demo")
    (suites.parent / "pyproject.toml").write_text("")  # some distribution ships one
    return suites


def test_an_installed_package_is_not_written_to(installed: Path) -> None:
    assert not is_checkout(installed)
    with pytest.raises(UsageError, match=r"installed package.*\n.*--out DIR"):
        find_bundled_directory(installed)
    for directory in (installed / STRESS, installed / "more", installed.parent / "other"):
        with pytest.raises(UsageError, match="installed package"):
            check_own(directory, installed)


def test_one_without_a_source_tree_is_none_either(tmp_path: Path) -> None:
    suites = tmp_path / "opt" / "suites"
    suites.mkdir(parents=True)
    assert not is_checkout(suites)
    with pytest.raises(UsageError, match="installed package"):
        check_own(suites / "more", suites)
    check_own(tmp_path / "more", suites)


def test_the_bundled_suites_of_a_checkout_may_be_written_again() -> None:
    assert is_checkout()
    assert find_bundled_directory() == BUNDLED
    check_own(BUNDLED / STRESS)
    with pytest.raises(UsageError, match="among the bundled suites"):
        check_own(BUNDLED / "demo")


def test_a_name_that_a_bundled_suite_has_is_refused_with_another(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"directory name '{STRESS}'.*\n.*--out {tmp_path}/{STRESS}-more"):
        check_own(tmp_path / STRESS)


# --- the verb -----------------------------------------------------------------------------------------------------


def test_a_suite_with_more_instances_is_written_found_and_sound(tmp_path: Path) -> None:
    done = cli("gen-stress", "--instances", 7, "--out", tmp_path / "seven")
    assert done.exit_code == 0
    files = make_long_context_stress(7)
    assert f"{tmp_path}/seven: {len(files)} files; {len(files)} written, 0 removed, 0 unchanged" in done.stdout
    assert f"check seven --suite-dir {tmp_path}/seven" in done.stderr
    assert tree(tmp_path / "seven") == {**files, LISTING_FILE: render_listing(files)}
    checked = cli("check", "seven", "--suite-dir", tmp_path / "seven")
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert "long-context-stress 1.1.0: ok, 11 tasks" in checked.stderr


def test_fewer_instances_take_the_others_back(tmp_path: Path) -> None:
    assert cli("gen-stress", "--instances", 6, "--out", tmp_path / "more").exit_code == 0
    done = cli("--json", "gen-stress", "--out", tmp_path / "more")
    document = json.loads(done.stdout)
    (told,) = document["suites"]
    assert (document["schema"], document["instances"]) == ("evalctl.gen-stress/1", 5)
    assert (told["written"], told["removed"]) == (1, 17)  # suite.json; 16 segments and a script
    assert not (tmp_path / "more" / "fixtures" / "chain-walk-rules-06").exists()


def test_without_a_directory_it_would_leave_the_committed_suites_as_they_are() -> None:
    for name, files in ((STRESS, make_long_context_stress()), (LONG_CONTEXT, make_long_context())):
        changes = plan_changes(find_bundled_directory() / name, files)
        assert (changes.write, changes.remove) == ({}, ())


def test_a_refusal_exits_with_1_and_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "suite.json").write_text("mine")
    assert run_command(["gen-stress", "--out", str(tmp_path)]) == 1
    assert "\n  suite.json\n" in capsys.readouterr().err
    assert tree(tmp_path) == {"suite.json": "mine"}


@pytest.mark.parametrize("instances", ["4", "100", "many"])
def test_a_number_out_of_bounds_exits_with_1(
    tmp_path: Path, instances: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["gen-stress", "--instances", instances, "--out", str(tmp_path / "new")]) == 1
    assert "--instances" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
