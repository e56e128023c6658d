from __future__ import annotations

import os
import stat
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.workspaces.fixture import (
    MAX_SMALL_BYTES,
    MAX_SMALL_ENTRIES,
    Fixtures,
    SetupFailed,
    Workspace,
    open_workspace,
    read_fixture,
)
from orchestrator.workspaces.repositories import find_left_out
from providers.system.tree import list_changes

pytestmark = pytest.mark.anyio

PATH = {"PATH": os.environ["PATH"]}  # noqa: TID251 - a test is its own edge


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "fixture"
    (made / "src" / "__pycache__").mkdir(parents=True)
    (made / "src" / "__pycache__" / "x.pyc").touch()
    (made / "src" / "add.py").write_text("def add(a, b): ...\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    (made / "link.py").symlink_to("src/add.py")
    return made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def make(root: Path, place: Path, **given: Any) -> AbstractAsyncContextManager[Workspace]:
    usual: dict[str, Any] = {"git": False, "keep": False, "parent": place, "name": "s/1/1"}
    return open_workspace(read_fixture(root), **(usual | given))


async def test_a_copy_is_private_complete_and_gone_afterwards(root: Path, place: Path) -> None:
    async with make(root, place) as made:
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
        assert stat.S_IMODE(made.home.stat().st_mode) == 0o700
        assert not made.home.is_relative_to(made.path)
        assert sorted(p.relative_to(made.path).as_posix() for p in made.path.rglob("*")) == [
            "link.py",
            "run.sh",
            "src",
            "src/add.py",
        ]
        assert os.access(made.path / "run.sh", os.X_OK)
        assert os.readlink(made.path / "link.py") == "src/add.py"  # noqa: PTH115
        assert list_changes(made.before, made.path) == ()
    assert not made.kept
    assert list(place.iterdir()) == []


async def test_what_a_run_does_is_told_from_the_fixture(root: Path, place: Path) -> None:
    async with make(root, place) as made:
        (made.path / "src" / "add.py").write_text("new\n")
        (made.path / "run.sh").unlink()
        (made.home / "elsewhere").touch()
        found = {change.path: change.change for change in list_changes(made.before, made.path)}
    assert found == {"src/add.py": "changed", "run.sh": "deleted"}
    assert (root / "src" / "add.py").read_text() == "def add(a, b): ...\n"


async def test_kept_workspaces_stay(root: Path, place: Path) -> None:
    async with make(root, place, keep=True) as made:
        pass
    assert made.kept
    assert (made.path / "run.sh").exists()


@pytest.mark.parametrize("size", [MAX_SMALL_BYTES + 1, MAX_SMALL_ENTRIES + 1])
async def test_a_large_fixture_is_copied_from_the_disk(root: Path, place: Path, size: int) -> None:
    if size > MAX_SMALL_BYTES:
        (root / "large").write_bytes(b"x" * size)
    else:
        for number in range(size):
            (root / f"file-{number}").touch()
    fixture = read_fixture(root)
    assert not fixture.small
    assert all(entry.content is None for entry in fixture.entries)
    async with make(root, place) as made:
        assert list_changes(made.before, made.path) == ()
    assert list(place.iterdir()) == []


async def test_a_fixture_installed_read_only_can_be_edited_in_its_copy(root: Path, place: Path) -> None:
    (root / "src" / "add.py").chmod(0o444)
    (root / "src").chmod(0o555)
    async with make(root, place) as made:
        assert (made.path / "src" / "add.py").stat().st_mode & stat.S_IWUSR
        assert (made.path / "src").stat().st_mode & stat.S_IWUSR
        assert list_changes(made.before, made.path) == ()


async def test_whatever_a_run_leaves_is_removed(root: Path, place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    async with make(root, place) as made:
        (made.path / "away").symlink_to(outside)
        for number in range(3 * MAX_SMALL_ENTRIES):
            (made.path / "src" / str(number)).mkdir()
        (made.path / "src").chmod(0)
        made.path.chmod(0o500)
    assert list(place.iterdir()) == []
    assert (outside / "precious").exists()


async def test_a_workspace_that_the_run_removed_is_gone_quietly(root: Path, place: Path) -> None:
    async with make(root, place) as made:
        made.path.rename(place / "renamed")
    assert not made.kept


async def test_a_cancelled_run_leaves_nothing(root: Path, place: Path) -> None:
    (root / "large").write_bytes(b"x" * (MAX_SMALL_BYTES + 1))
    with anyio.CancelScope() as scope:
        async with make(root, place) as made:
            for number in range(2 * MAX_SMALL_ENTRIES):
                (made.path / str(number)).touch()
            scope.cancel()
            await anyio.sleep_forever()
    assert list(place.iterdir()) == []


async def test_names_of_runs_need_not_be_names_of_files(root: Path, place: Path) -> None:
    async with make(root, place, name="../../a b\0c:" + "x" * 300) as made:
        assert made.directory.parent == place


async def test_two_workspaces_of_one_name_are_two(root: Path, place: Path) -> None:
    async with make(root, place) as one, make(root, place) as other:
        assert one.path != other.path
        assert one.home != other.home
    assert list(place.iterdir()) == []


async def test_a_lazy_workspace_is_made_once_and_only_when_it_is_needed(root: Path, place: Path) -> None:
    async with make(root, place, lazy=True) as unused:
        assert not unused.made
    assert not place.exists()
    async with make(root, place, lazy=True) as made:
        made.copy_fixture()
        (made.path / "run.sh").unlink()
        made.copy_fixture()
        assert [change.path for change in list_changes(made.before, made.path)] == ["run.sh"]
        (made.home / "elsewhere").touch()
    assert list(place.iterdir()) == []


async def test_what_is_kept_or_a_repository_is_not_lazy(root: Path, place: Path) -> None:
    async with make(root, place, lazy=True, keep=True) as kept:
        assert kept.made
    async with make(root, place, lazy=True, git=True, environment=PATH) as repository:
        assert (repository.path / ".git").is_dir()


async def test_a_lazy_workspace_that_cannot_be_made_is_a_failed_setup_and_leaves_nothing(
    root: Path, place: Path
) -> None:
    async with make(root, place, lazy=True) as one, make(root, place, lazy=True) as other:
        one.copy_fixture()
        with pytest.raises(SetupFailed, match="File exists"):
            other.copy_fixture()
        assert (one.path / "run.sh").exists()
    assert list(place.iterdir()) == []


async def test_fixtures_are_read_once(root: Path) -> None:
    fixtures = Fixtures()
    first = await fixtures.read_cached(root)
    (root / "later").touch()
    assert await fixtures.read_cached(root) is first


@pytest.mark.parametrize("wrong", ["missing", "a file", "fifo", "link outside", "absolute link"])
async def test_what_cannot_be_copied_is_a_failed_setup(root: Path, wrong: str) -> None:
    if wrong == "missing":
        root = root / "nowhere"
    elif wrong == "a file":
        root = root / "run.sh"
    elif wrong == "fifo":
        os.mkfifo(root / "pipe")
    else:
        (root / "out").symlink_to("../../x" if wrong == "link outside" else str(root / "run.sh"))
    with pytest.raises(SetupFailed, match=str(root)):
        await Fixtures().read_cached(root)


async def test_a_file_that_vanished_after_reading_is_a_failed_setup_and_leaves_nothing(root: Path, place: Path) -> None:
    (root / "large").write_bytes(b"x" * (MAX_SMALL_BYTES + 1))
    fixture = read_fixture(root)
    (root / "large").unlink()
    with pytest.raises(SetupFailed, match="large"):
        async with open_workspace(fixture, git=False, keep=False, parent=place, name="x"):
            pass
    assert list(place.iterdir()) == []


async def test_a_place_that_cannot_be_made_is_a_failed_setup(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupFailed):
        async with make(root, tmp_path / "file" / "runs"):
            pass


async def git(made: Workspace, *words: str) -> str:
    ended = await anyio.run_process(["git", *words], cwd=made.path, check=True)
    return ended.stdout.decode()


async def test_a_repository_has_one_commit_that_is_the_same_every_time(
    root: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = tmp_path / "gitconfig"
    hostile.write_text(f"[core]\n\thooksPath = {tmp_path / 'hooks'}\n[commit]\n\tgpgSign = true\n")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "hooks" / "pre-commit").chmod(0o755)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(hostile))
    seen = []
    for _ in range(2):
        async with make(root, place, git=True, environment=PATH, marker="s/1/1") as made:
            seen.append(await git(made, "log", "--all", "--format=%H %an %s"))
            assert await git(made, "status", "--porcelain") == ""
            assert list_changes(made.before, made.path) == ()
            assert list(made.home.iterdir()) == []
    assert seen[0] == seen[1]
    assert seen[0].count("\n") == 1
    assert list(place.iterdir()) == []


async def test_an_agent_can_commit(root: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    async with make(root, place, git=True, environment=PATH) as made:
        (made.path / "new").touch()
        await git(made, "add", "new")
        await git(made, "commit", "-qm", "work")
        assert (await git(made, "rev-list", "--count", "HEAD")).strip() == "2"


async def test_a_repository_is_its_own_below_another_and_behind_a_link(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    (tmp_path / "around").mkdir()
    await anyio.run_process(["git", "init", "-q", str(tmp_path / "around")], env=PATH)
    (tmp_path / "link").symlink_to("around")
    async with make(root, tmp_path / "link" / "runs", git=True, environment=PATH) as made:
        monkeypatch.delenv("GIT_DIR")
        assert Path((await git(made, "rev-parse", "--show-toplevel")).strip()) == made.path.resolve()
        assert "worktree" not in (made.path / ".git" / "config").read_text()
    assert not any((tmp_path / "around" / ".git" / "refs" / "heads").iterdir())
    assert not (tmp_path / "elsewhere").exists()


async def run_git(place: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    await anyio.run_process(["git", *identity, *words], cwd=place, env=PATH)


async def make_repository(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    await run_git(place, "init", "-q", "-b", "main")
    (place / "code.c").write_text("code\n")
    await run_git(place, "add", "-A")
    await run_git(place, "commit", "-qm", "first")
    return place


@pytest.mark.parametrize("depth", ["", "vendor/lib"])
@pytest.mark.parametrize("how", ["work tree", "submodule", "link", "core.worktree", "alternates", "commondir"])
async def test_a_pointer_to_another_repository_is_never_copied(
    root: Path, place: Path, tmp_path: Path, how: str, depth: str
) -> None:
    real = await make_repository(tmp_path / "real")
    inside = root / depth
    if how == "work tree":
        await run_git(real, "worktree", "add", "-q", str(tmp_path / "tree"))
        inside.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / ".git").rename(inside / ".git")
    elif how == "submodule":
        inside.mkdir(parents=True, exist_ok=True)
        (inside / ".git").write_text("gitdir: ../../.git/modules/lib\n")
    elif how == "link":
        (root / "repository").mkdir()
        inside.mkdir(parents=True, exist_ok=True)
        (inside / ".git").symlink_to(os.path.relpath(root / "repository", inside))
    else:
        await make_repository(inside)
        if how == "core.worktree":
            await run_git(inside, "config", "core.worktree", str(real))
        elif how == "commondir":
            (inside / ".git" / "commondir").write_text(f"{real / '.git'}\n")
        else:
            (inside / ".git" / "objects" / "info" / "alternates").write_text(f"{real / '.git' / 'objects'}\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in real.rglob("*"))
    (place_of_git,) = find_left_out(root, git=False)
    assert place_of_git[0] == (f"{depth}/.git" if depth else ".git")
    async with make(root, place) as made:
        assert not os.path.lexists(made.path / depth / ".git")
        assert (made.path / "src" / "add.py").is_file()
        assert list_changes(made.before, made.path) == ()
    async with make(root, place, git=True, environment=PATH) as made:
        assert (await git(made, "rev-list", "--count", "--all")).strip() == "1"
        assert not os.path.lexists(made.path / "vendor" / "lib" / ".git")
    assert sorted((path, path.stat().st_mtime_ns) for path in real.rglob("*")) == before


async def test_a_repository_of_the_fixture_itself_is_copied_whole(root: Path, place: Path) -> None:
    await make_repository(root / "vendor")
    assert list(find_left_out(root, git=False)) == []
    async with make(root, place) as made:
        assert (await git(made, "-C", "vendor", "log", "--format=%s")).strip() == "first"
        assert (await git(made, "-C", "vendor", "status", "--porcelain")) == ""


async def test_one_commit_holds_the_files_of_a_nested_clone(root: Path, place: Path) -> None:
    await make_repository(root)
    await make_repository(root / "vendor")
    assert [path for path, _ in find_left_out(root, git=True)] == [".git", "vendor/.git"]
    async with make(root, place, git=True, environment=PATH) as made:
        assert "vendor/code.c\n" in await git(made, "ls-files")
        assert (await git(made, "rev-list", "--count", "--all")).strip() == "1"
        assert list_changes(made.before, made.path) == ()


async def test_git_that_is_missing_is_a_failed_setup(root: Path, place: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match="needs git"):
        async with make(root, place, git=True, environment={"PATH": str(tmp_path)}):
            pass
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("thing", ["file", "link", "nothing"])
async def test_a_home_is_a_directory_whatever_the_run_has_made_of_it(root: Path, place: Path, thing: str) -> None:
    async with make(root, place) as made:
        made.home.rmdir()
        if thing == "file":
            made.path.with_name(f"{made.path.name}.home").touch()
        elif thing == "link":
            made.path.with_name(f"{made.path.name}.home").symlink_to("nowhere")
        assert made.home.is_dir()
        assert not made.home.is_symlink()


async def test_what_a_run_has_put_in_the_place_of_another_is_no_obstacle(root: Path, place: Path) -> None:
    place.mkdir()
    for name in ("s-1-1", "s-1-1.home"):
        (place / name).write_text("planted")
    async with make(root, place) as made:
        assert (made.path / "src" / "add.py").is_file()
        assert made.home.is_dir()


async def test_every_run_has_a_directory_of_its_own_that_goes_with_it(root: Path, place: Path) -> None:
    async with make(root, place) as one, make(root, place) as other:
        assert one.directory != other.directory
        assert one.home.parent == one.path.parent == one.directory
        (one.directory / "conftest.py").touch()
        assert not (other.path.parent / "conftest.py").exists()
    assert list(place.iterdir()) == []


async def test_strays_beside_the_workspace_are_removed_and_named(root: Path, place: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    async with make(root, place, name="run-1-1") as made, make(root, place, name="run-2-1") as other:
        assert await made.remove_strays() == ()
        (made.home / "kept").touch()
        (made.directory / "pytest.ini").touch()
        (made.directory / "node_modules" / "x").mkdir(parents=True)
        (made.directory / "link").symlink_to(tmp_path)
        (place / "package.json").touch()
        (place / ".git").mkdir()
        (place / "run-3-1").symlink_to(tmp_path)
        named = ("../.git", "../package.json", "../run-3-1", "link", "node_modules", "pytest.ini")
        assert await made.remove_strays() == named
        assert await made.remove_strays() == ()
        assert sorted(path.name for path in place.iterdir()) == ["run-1-1", "run-2-1"]
        assert (made.home / "kept").exists()
        assert (other.path / "run.sh").exists()
    assert (tmp_path / "precious").exists()


async def test_the_place_of_all_runs_is_mended_when_one_has_spoilt_it(root: Path, place: Path) -> None:
    place.touch()
    async with make(root, place) as made:
        assert made.home.is_dir()
        assert (made.path / "src" / "add.py").is_file()
