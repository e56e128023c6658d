"""No verdict can be bought: files that an agent plants outside its task's files change no result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ANSWER, MakeSuite, script, tiny
from tests.peers.driver import Driver

SUITES = Path(__file__).parents[2] / "suites"

PLANT = r"""
cheat='import os; os.write(1, b"all checks passed\n"); os._exit(0)'
for base in "$HOME" "$TMPDIR" .. ../home; do
  for version in $(seq 9 20); do
    for place in "$base/.local/lib/python3.$version" "$base/.local/lib64/python3.$version"; do
      mkdir -p "$place/site-packages"
      echo "$cheat" > "$place/site-packages/usercustomize.py"
      echo "import usercustomize" > "$place/site-packages/plant.pth"
    done
  done
  mkdir -p "$base/bin" "$base/.git"
  for name in usercustomize sitecustomize conftest json os sys re; do echo "$cheat" > "$base/$name.py"; done
  printf '#!/bin/sh\necho all checks passed\n' > "$base/bin/python3"
  cp "$base/bin/python3" "$base/python3"
  chmod +x "$base/bin/python3" "$base/python3"
  printf '[pytest]\naddopts = --version\n' > "$base/pytest.ini"
done
mkdir -p .git __pycache__ node_modules/.bin
printf '[core]\n\tfsmonitor = /bin/true\n' > .git/config
cp "$HOME/python3" node_modules/.bin/python3
echo planted
"""
"""Plants programs in all places beside the workspace that a Python check program might load."""


def plant(suite: str, folder: Path) -> tuple[Path, int]:
    """A copy of a bundled suite whose scripts do no work but plant files, and the number of its tasks."""
    root = Path(shutil.copytree(SUITES / suite, folder / suite))
    shutil.rmtree(root / "scripts")
    (root / "scripts").mkdir()
    call: dict[str, Any] = {"id": "c1", "name": "bash", "arguments": {"command": PLANT}}
    plays = script({"toolCalls": [call], "usage": {"input": 12, "output": 6}}, ANSWER)
    tasks = json.loads((root / "suite.json").read_text(encoding="utf-8"))["tasks"]
    for task in tasks:
        (root / "scripts" / f"{task['id']}.json").write_text(json.dumps(plays), encoding="utf-8")
    return root, len(tasks)


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
@pytest.mark.parametrize("suite", ["demo", "smoke-coding", "tool-sequences"])
def test_a_bundled_suite_passes_no_agent_that_only_plants_files(
    evalctl: Driver, tmp_path: Path, suite: str, sandbox: str
) -> None:
    if sandbox == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    root, tasks = plant(suite, tmp_path / "suites")
    flags = ["--allow-write", "--allow-process", "--k", "1", "--sandbox", sandbox, "--yes", "--provider", "scripted"]
    name = json.loads((root / "suite.json").read_text(encoding="utf-8"))["suiteId"]
    done = evalctl.run("run", name, "--suite-dir", str(root), *flags)
    assert done.code == 0, done.stderr
    assert evalctl.query("SELECT outcome, reason FROM current") == [("fail", None)] * tasks
    assert "planted" in evalctl.run("show", "last/1").stdout


def test_the_configuration_of_an_agents_repository_is_never_used(
    evalctl: Driver, tmp_path: Path, make_suite: MakeSuite
) -> None:
    mark = tmp_path / "ran"
    hook = f"printf '#!/bin/sh\\ntouch {mark}\\n' > $HOME/hook; chmod +x $HOME/hook"
    uses = [
        "core.fsmonitor $HOME/hook",
        "core.sshCommand $HOME/hook",
        "filter.x.clean $HOME/hook",
        "diff.external $HOME/hook",
    ]
    setting = "; ".join(f"git config {use}" for use in uses)
    plants = f"{hook}; {setting}; echo '* filter=x' > .gitattributes; cp $HOME/hook .git/hooks/post-index-change"
    call = {"id": "c1", "name": "bash", "arguments": {"command": plants}}
    plays = script({"toolCalls": [call], "usage": {"input": 12, "output": 6}}, ANSWER)
    within = {"kind": "tree-diff-within", "id": "scope", "allowed": []}
    check = {"kind": "command", "id": "check", "command": ["true"]}
    suite = make_suite(
        {"t": "Do it."}, allow=["process"], scripts={"t": plays}, fixtureGit=True, verifiers=[within, check]
    )
    assert evalctl.run(*tiny(suite, "--allow-process", "--k", "1")).code == 0
    evalctl.run("verify", "last")
    assert not mark.exists()
    assert evalctl.query("SELECT path FROM file_change") == [(".gitattributes",)]


CONFIGURED = "import pathlib, sys; sys.exit(not any((p / 'plant.ini').exists() for p in pathlib.Path.cwd().parents))"


def test_no_run_passes_by_a_file_above_its_workspace(evalctl: Driver, make_suite: MakeSuite) -> None:
    """The check passes if a directory above it holds a configuration, as pytest and npm look for theirs."""
    call = {"id": "c1", "name": "bash", "arguments": {"command": "touch ../plant.ini ../../plant.ini"}}
    plays = script({"toolCalls": [call], "usage": {"input": 12, "output": 6}}, ANSWER)
    check = {"kind": "command", "id": "check", "command": ["python3", "-c", CONFIGURED]}
    names = ("plants", "works")
    suite = make_suite(
        dict.fromkeys(names, "Do it."),
        allow=["process"],
        scripts={"plants": plays, "works": script(ANSWER)},
        verifiers=[check],
    )
    assert evalctl.run(*tiny(suite, "--allow-process", "--k", "2", "--concurrency", "1")).code == 0
    assert evalctl.query("SELECT outcome FROM current") == [("fail",)] * 4
    incidents = evalctl.query("SELECT payload FROM event WHERE kind = 'incident'")
    assert [json.loads(payload) for (payload,) in incidents] == [
        {"name": "outside_workspace", "detail": {"paths": ["../plant.ini", "plant.ini"]}}
    ] * 2
