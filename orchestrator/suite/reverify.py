"""Re-verification: running the verifiers (scorers) again on stored runs, without calling the model.

A run's workspace is rebuilt from the fixture and the files that the run changed; its tool calls come from its events.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from orchestrator.engine.open_store import open_for_writing
from orchestrator.suite.catalog import find_planned_suite
from orchestrator.suite.kind import VERIFIER_VARIABLES
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.plan import select_tasks
from orchestrator.suite.settings import Settings
from orchestrator.text import format_count, list_lines
from orchestrator.workspaces.fixture import Workspace, open_workspace, read_fixture
from orchestrator.world import World
from providers.base import ToolUse
from providers.system.paths import PathEscapes, resolve_inside
from store.errors import EvalctlError
from store.rows import FileChange, RunRecord, SweepRow
from store.secrets.redactor import MARK_PREFIX, Redactor, find_credentials
from store.sql.reader import Reader
from store.sql.verifications import Verification, store_verification
from verifiers.aggregate import combine_verdicts, run_verifiers
from verifiers.base import Evidence
from verifiers.pristine import find_check_files

if TYPE_CHECKING:
    from providers.system.sandbox import Sandbox
    from store.events import Json
    from store.sql.writer import Writer

Say = Callable[[str], None]
MAX_LISTED_CHANGES = 20
"""Number of changed runs that the terminal lists."""


@attrs.define(slots=False)
class NotVerifiable(EvalctlError):
    """A stored run cannot be verified again and keeps its result."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define(kw_only=True)
class Reverification:
    """Report of a re-verification."""

    sweep: str
    verified: int = 0
    changed: list[tuple[str, str, str]] = attrs.field(factory=list[tuple[str, str, str]])
    """Runs with a different outcome: run, outcome before, outcome now."""
    skipped: Counter[str] = attrs.field(factory=Counter[str])
    """Number of runs that were not verified again, by reason."""

    def to_json(self) -> dict[str, Json]:
        """Encode the report as a JSON object."""
        return {
            "sweep": self.sweep,
            "verified": self.verified,
            "changed": [{"run": run, "before": before, "now": now} for run, before, now in self.changed],
            "left": dict(sorted(self.skipped.items())),
        }

    def list_result_lines(self) -> Iterator[str]:
        """Return the lines for the terminal."""
        again = format_count(self.verified, "run")
        yield f"sweep {self.sweep}: {again} verified again, {len(self.changed)} with a different outcome"
        yield from list_lines((f"{run}: {before} -> {now}" for run, before, now in self.changed), MAX_LISTED_CHANGES)
        yield from (f"  {count} left as they are: {why}" for why, count in sorted(self.skipped.items()))


async def verify_sweep(
    store: Path, name: str, tasks: Sequence[str], world: World, say: Say, *, check: Callable[[SweepRow], None]
) -> Reverification:
    """Run the suite's present verifiers on every run of the sweep whose result came from verifiers.

    Args:
        store: the store's file.
        name: the sweep's name.
        tasks: the tasks to verify; empty is all.
        world: clocks and environment.
        say: prints one line.
        check: raises if the sweep's kind has no verifiers.

    Raises:
        UsageError: the sweep, the suite or a task does not exist.
        StoreFailed: the store cannot be written.
    """
    redactor = Redactor(find_credentials(world.environment))
    with Reader(store) as reader:
        row = reader.find_sweep(name)
        check(row)
        planned = row.conditions["suite"]
        suite = find_planned_suite(planned["id"], Path(planned["root"]), bundled=planned["bundled"])
        settings = Settings.from_json(row.conditions["settings"])
        reverification = _ReverifyRound(
            reader=reader,
            sweep=row,
            suite=suite,
            tasks={task.id: task for task in select_tasks(suite, tasks)},
            cases={cell.id: cell.case_id for cell in reader.list_cells(row.id)},
            environment={name: world.environment[name] for name in VERIFIER_VARIABLES if name in world.environment},
            sandbox=await _open_sandbox(settings, store, world),
            redactor=redactor,
            report=Reverification(sweep=row.name),
        )
        if settings.suite != suite.suite_id or planned["version"] != suite.suite_version:
            say(
                f"warning: the sweep ran version {planned['version']} of the suite; "
                f"its version is now {suite.suite_version}"
            )
        async with open_for_writing(store, say=say, max_stall_s=settings.max_stall_s) as writer:
            with tempfile.TemporaryDirectory(prefix="evalctl-verify-") as folder:
                for run in reader.iterate_runs(row.id):
                    await reverification.verify_run(run, Path(folder), writer)
        return reverification.report


async def _open_sandbox(settings: Settings, store: Path, world: World) -> Sandbox | None:
    """Open the sandbox that the sweep's settings name."""
    if settings.sandbox == "none":
        return None
    from providers.system.sandbox import find_bubblewrap, prove_sandbox  # noqa: PLC0415 - start-up: only with a sandbox

    sandbox = find_bubblewrap(world.environment, store=store)
    await prove_sandbox(sandbox, world.environment)
    return sandbox


@attrs.frozen(kw_only=True)
class _ReverifyRound:
    """One re-verification of a sweep."""

    reader: Reader
    sweep: SweepRow
    suite: Suite
    tasks: dict[str, Task]
    cases: dict[int, str]
    environment: dict[str, str]
    sandbox: Sandbox | None
    redactor: Redactor
    report: Reverification

    async def verify_run(self, run: RunRecord, folder: Path, writer: Writer) -> None:
        """Verify one run and store the verdicts."""
        task, case = self.tasks.get(self.cases[run.cell_id]), self.cases[run.cell_id]
        if task is None:
            if case not in {known.id for known in self.suite.tasks}:
                self.report.skipped["the suite has no such task any more"] += 1
            return
        try:
            verification = await self._run_verifiers(run, task, folder)
        except NotVerifiable as error:
            self.report.skipped[str(error)] += 1
            return
        if not await writer.submit_and_wait(store_verification(verification, self.redactor)):
            self.report.skipped["it got another result meanwhile"] += 1
            return
        self.report.verified += 1
        if verification.outcome != run.outcome:
            where = f"{self.sweep.name}/{run.position} ({task.id})"
            self.report.changed.append((where, str(run.outcome), verification.outcome))

    async def _run_verifiers(self, run: RunRecord, task: Task, folder: Path) -> Verification:
        if run.attempt_id is None:
            raise NotVerifiable("it has no result")
        decided = run.outcome in ("pass", "fail") or (run.outcome == "error" and run.reason == "verifier")
        if not decided or (run.outcome == "fail" and run.reason is not None):
            raise NotVerifiable("no verifier had decided it")
        root = self.suite.root / task.fixture
        self._require_same_fixture(task, root)
        changes = tuple(self.reader.iterate_file_changes(run.attempt_id))
        _check_changes(changes)
        marker = f"{self.sweep.name}/{run.position}/{run.attempt_number}"
        async with open_workspace(
            read_fixture(root),
            git=task.fixture_git,
            keep=False,
            parent=folder,
            name=f"{run.position}",
            environment=self.environment,
            marker=marker,
        ) as workspace:
            _apply_changes(changes, workspace)
            verdicts = await run_verifiers(
                task.verifiers,
                Evidence(
                    workspace=workspace.path,
                    fixture=workspace.fixture.root,
                    changes=changes,
                    tools=self._read_tool_uses(run.attempt_id),
                    marker=marker,
                    environment=self.environment,
                    sandbox=self._make_sandbox(task),
                ),
            )
        verdict, composite = combine_verdicts(verdicts)
        return Verification(
            run_id=run.run_id,
            attempt_id=run.attempt_id,
            outcome=verdict,
            reason="verifier" if verdict == "error" else None,
            composite=composite,
            verdicts=verdicts,
        )

    def _make_sandbox(self, task: Task) -> Sandbox | None:
        if self.sandbox is None:
            return None
        return attrs.evolve(self.sandbox, network="external" in task.policy.allow)

    def _require_same_fixture(self, task: Task, root: Path) -> None:
        """Require the fixture that the run started from. Check files may differ, since verifiers restore them."""
        before, prefix = self.sweep.conditions["suite"]["content"], f"{task.fixture}/"
        now = self.suite.content
        checks = {f"{prefix}{path}" for path in find_check_files(task.verifiers, root)}
        names = {path for path in before.keys() | now.keys() if path.startswith(prefix)} - checks
        if any(before.get(path) != now.get(path) for path in names):
            raise NotVerifiable("the fixture has changed since")

    def _read_tool_uses(self, attempt_id: int) -> tuple[ToolUse, ...]:
        """Read the attempt's tool calls in the order in which they started."""
        arguments: dict[str, Json] = {}
        names: dict[str, str] = {}
        failed: dict[str, bool] = {}
        for event in self.reader.iterate_events(attempt_id):
            payload = event.payload
            if event.kind == "tool_started":
                names[payload["id"]], arguments[payload["id"]] = payload["name"], payload.get("arguments")
            elif event.kind == "tool_completed":
                failed[payload["id"]] = payload["is_error"]
        return tuple(
            ToolUse(name=name, arguments=arguments[call], is_error=failed[call])
            for call, name in names.items()
            if call in failed
        )


def _check_changes(changes: Sequence[FileChange]) -> None:
    for change in changes:
        if change.change != "deleted" and change.link is None and change.content is None:
            raise NotVerifiable("a file that it left was not kept")
        if change.content is not None and MARK_PREFIX.encode() in change.content:
            raise NotVerifiable("a file that it left holds the mark of a secret, and what was there is gone")


def _apply_changes(changes: Sequence[FileChange], workspace: Workspace) -> None:
    """Apply the run's file changes to the workspace. Links come last, so that nothing is written through one."""
    try:
        for change in changes:
            path = resolve_inside(workspace.path, change.path)
            if change.change == "deleted" or change.link is not None:
                (workspace.path / change.path).unlink(missing_ok=True)
            elif change.content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_bytes(change.content)
                if change.mode is not None:
                    path.chmod(change.mode)
        for change in changes:
            if change.link is not None:
                link = workspace.path / change.path
                link.parent.mkdir(parents=True, exist_ok=True)
                os.symlink(change.link, link)  # noqa: PTH211 - Path.symlink_to would normalize the target
    except (OSError, PathEscapes) as error:
        raise NotVerifiable(f"what it left cannot be put together again: {error}") from error
