"""What bwrap is asked for; what it then does is tested where it is there (`make peers`)."""

import os
import sys
from pathlib import Path

import pytest

from providers.system.sandbox import Sandbox, SandboxUnusable, find_bubblewrap, prove_sandbox, run_confined

pytestmark = pytest.mark.anyio


def program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    path.chmod(0o755)
    return path


def pairs(argv: list[str], option: str) -> list[tuple[str, str]]:
    return [(argv[i + 1], argv[i + 2]) for i, word in enumerate(argv) if word == option]


def places(argv: list[str], option: str) -> list[str]:
    return [argv[i + 1] for i, word in enumerate(argv) if word == option]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment with a bwrap of its own and tools in the home, as pipx and venvs leave them."""
    program(tmp_path / "bin" / "bwrap")
    home = tmp_path / "home"
    (home / "me" / ".local" / "bin").mkdir(parents=True)
    return {"PATH": f"{tmp_path}/bin:{home}/me/.local/bin:/usr/bin:/bin", "HOME": str(home / "me")}


def sandbox_of(machine: dict[str, str], tmp_path: Path) -> Sandbox:
    store = tmp_path / "kept" / "runs.db"
    store.parent.mkdir(exist_ok=True)
    return find_bubblewrap(machine, store=store)


def test_everything_is_read_only_but_what_is_named(machine: dict[str, str], tmp_path: Path) -> None:
    work = tmp_path / "work"
    argv = sandbox_of(machine, tmp_path).build_argv(["sh", "-c", "id"], writable=[work, work], status=9)

    assert pairs(argv, "--ro-bind") == [("/", "/")]
    assert pairs(argv, "--bind") == [(str(work), str(work))]
    assert argv[argv.index("--") + 1 :] == ["sh", "-c", "id"]
    for word in ("--unshare-pid", "--unshare-net", "--die-with-parent", "--new-session", "--cap-drop"):
        assert word in argv
    assert places(argv, "--json-status-fd") == ["9"]


def test_the_root_comes_first_and_the_workspace_lies_over_what_is_hidden(
    machine: dict[str, str], tmp_path: Path
) -> None:
    argv = sandbox_of(machine, tmp_path).build_argv(["true"], writable=[tmp_path], status=9)
    order = [argv.index(word) for word in ("--ro-bind", "--tmpfs", "--ro-bind-try", "--bind", "--remount-ro")]
    assert order == sorted(order)


def test_home_store_and_temporary_files_are_hidden(machine: dict[str, str]) -> None:
    elsewhere = Path(__file__).resolve().parents[3] / "docs"  # some directory that is not temporary
    machine["HOME"] = str(elsewhere)
    sandbox = find_bubblewrap(machine, store=elsewhere.parent / "suites" / "runs.db")
    hidden = set(sandbox.hidden)
    for place in (elsewhere, elsewhere.parent / "suites", Path("/tmp"), Path("/run")):
        assert any(place.resolve().is_relative_to(one) for one in hidden), place
    assert not {Path("/"), Path("/usr"), Path("/etc")} & hidden


def test_of_a_hidden_home_only_programs_are_seen(machine: dict[str, str], tmp_path: Path) -> None:
    tools = Path(machine["HOME"]) / ".local" / "bin"
    seen = {seen for _, seen in sandbox_of(machine, tmp_path).visible}
    assert tools in seen
    assert not seen & {tools.parent, Path(machine["HOME"])}


def test_the_python_of_path_is_seen_with_its_library_and_what_it_was_made_from(
    machine: dict[str, str], tmp_path: Path
) -> None:
    base = Path(machine["HOME"]) / "pythons" / "3.11"
    program(base / "bin" / "python3.11")
    (base / "lib").mkdir()
    venv = Path(machine["HOME"]) / "project" / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "lib").mkdir()
    (venv / "pyvenv.cfg").touch()
    (venv / "bin" / "python3").symlink_to(base / "bin" / "python3.11")
    machine["PATH"] = f"{venv}/bin:{machine['PATH']}"

    seen = {seen for _, seen in sandbox_of(machine, tmp_path).visible}
    assert {venv / "bin", venv / "lib", venv / "pyvenv.cfg", base / "bin", base / "lib"} <= seen
    assert not seen & {venv.parent, base.parent}


def test_programs_behind_the_shims_of_a_version_manager_are_seen(machine: dict[str, str], tmp_path: Path) -> None:
    root = Path(machine["HOME"]) / ".pyenv"
    for part in ("shims", "libexec", "versions", "cache"):
        (root / part).mkdir(parents=True)
    machine["PATH"] = f"{root}/shims:{machine['PATH']}"
    seen = {seen for _, seen in sandbox_of(machine, tmp_path).visible}
    assert {root / "shims", root / "libexec", root / "versions"} <= seen
    assert not seen & {root, root / "cache"}


def test_a_network_is_there_only_where_it_is_granted(tmp_path: Path) -> None:
    closed = Sandbox(program=Path("/usr/bin/bwrap"), hidden=(Path("/run"),))
    opened = Sandbox(program=Path("/usr/bin/bwrap"), hidden=(Path("/run"),), network=True)
    assert "--unshare-net" in closed.build_argv(["true"], writable=[tmp_path], status=3)
    assert "--unshare-net" not in opened.build_argv(["true"], writable=[tmp_path], status=3)


def test_without_bwrap_the_sandbox_is_unusable_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnusable, match="bwrap is not on PATH") as refused:
        find_bubblewrap({"PATH": str(tmp_path)}, store=tmp_path / "runs.db")
    assert "--sandbox none" in str(refused.value)


def test_a_store_that_cannot_be_hidden_is_refused(machine: dict[str, str]) -> None:
    with pytest.raises(SandboxUnusable, match="its own directory"):
        find_bubblewrap(machine, store=Path("/usr/runs.db"))


async def test_a_bwrap_that_makes_no_namespaces_is_unusable_with_its_own_words(
    machine: dict[str, str], tmp_path: Path
) -> None:
    program(tmp_path / "bin" / "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    with pytest.raises(SandboxUnusable, match="No permissions to create new namespace"):
        await prove_sandbox(sandbox_of(machine, tmp_path), machine)


async def test_a_bwrap_that_confines_nothing_is_unusable(machine: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "bin" / "bwrap", "exit 0")
    with pytest.raises(SandboxUnusable):
        await prove_sandbox(sandbox_of(machine, tmp_path), machine)


async def test_without_a_sandbox_a_program_runs_as_it_is(tmp_path: Path) -> None:
    finished = await run_confined(
        None,
        [sys.executable, "-c", "import os; print(os.getcwd())"],
        cwd=tmp_path,
        environment={"PATH": os.defpath},
        marker="",
        timeout_s=20,
        output_limit=1000,
    )
    assert (finished.exit_code, finished.stdout.decode().strip()) == (0, os.path.realpath(tmp_path))
