"""The verb `ci`: replay every cassette; the exit code says whether the harness behaves as recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.common import (
    COMMON,
    Exit,
    format_trust_warning,
    print_data,
    print_error,
    print_json,
    print_notice,
)

if TYPE_CHECKING:
    from orchestrator.suite.model import Suite
    from orchestrator.suite.recordings.rehearsal import ReplayedSuite


def ci(
    suite_dir: Annotated[
        Path | None,
        typer.Option(
            "--suite-dir",
            metavar="DIR",
            help="A suite, or a directory of suites, instead of the bundled ones.",
            rich_help_panel=options.RUN_PANEL,
        ),
    ] = None,
    cassette_dir: options.CassetteDir = None,
    out_dir: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write DIR/SUITE/report.*. [default: a new temporary directory]",
            rich_help_panel=options.OUTPUT_PANEL,
        ),
    ] = None,
) -> None:
    """Replay every cassette of the bundled suites, or of those in --suite-dir.

    Needs no provider, key or network. Grants write and process, and uses an empty configuration. It measures the
    harness, not a model.
    """
    import tempfile

    from orchestrator.suite.recordings.rehearsal import replay_suites
    from orchestrator.workspaces.scratch import find_temporary_directory
    from orchestrator.world import hide_environment, real_world
    from store.errors import UsageError

    suites = _find_suites(suite_dir)
    if cassette_dir is not None and len(suites) != 1:
        raise typer.BadParameter(
            f"needs exactly one suite, not {len(suites)}; name it with --suite-dir", param_hint="--cassette-dir"
        )
    hide_environment()
    directory = (
        Path(out_dir) if out_dir else Path(tempfile.mkdtemp(prefix="evalctl-ci-", dir=find_temporary_directory()))
    )
    for suite in suites.values():
        if not suite.bundled:
            print_notice(format_trust_warning(suite.root, "recorded tool calls", sandboxed=False))
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {directory}: {error.strerror or error}") from error
    results = replay_suites(suites, cassette_dir, directory, real_world(), print_notice)
    _print_results(results, directory)
    code = _exit_code(results)
    if code == Exit.FAILED and not any(result.replayed for result in results):
        print_error("nothing was replayed: no suite has a cassette\nRecord some: evalctl record SUITE.")
    raise typer.Exit(code)


def _find_suites(suite_dir: Path | None) -> dict[str, Suite]:
    """Find the suites to replay, by id: those of *suite_dir*, or the bundled ones."""
    from orchestrator.suite.catalog import find_duplicate_ids, find_places
    from orchestrator.suite.formats.suite_json import read_suite
    from store.errors import UsageError

    places = [place for place in find_places(suite_dir) if suite_dir is None or _is_inside(place.directory, suite_dir)]
    if double := find_duplicate_ids(places):
        raise UsageError("\n".join(double))
    suites = [read_suite(place.directory, bundled=place.bundled) for place in places]
    return {suite.suite_id: suite for suite in suites}


def _is_inside(directory: Path, given: Path) -> bool:
    return directory.resolve() == given.resolve() or directory.resolve().parent == given.resolve()


def _print_results(results: list[ReplayedSuite], directory: Path) -> None:

    from orchestrator.reports.phrases import format_error

    if COMMON.json:
        print_json({"schema": "evalctl.ci/1", "suites": [_result_to_json(result) for result in results]})
        return
    print_data("REPLAY: this measures the harness, not the model.")
    for result in results:
        print_data(_result_line(result))
        for task in result.report.tasks if result.report is not None else ():
            for cause, message in task.examples.items():
                print_data(f"error({cause}) in {result.suite_id}/{task.id}: {format_error(cause, message)}")
            if task.figures.judged and not task.figures.passes:
                print_data(f"{result.suite_id}/{task.id} was replayed and did not pass")
    print_data(f"reports: {directory}")


def _result_line(result: ReplayedSuite) -> str:
    if result.report is None:
        return f"{result.suite_id}: skipped, it has no cassettes"
    from orchestrator.text import format_count

    passes = result.report.summary.passes
    skipped = f", {format_count(result.skipped, 'task')} skipped (no cassette)" if result.skipped else ""
    return f"{result.suite_id}: {passes} of {result.replayed} replayed and passed, {result.diverged} diverged{skipped}"


def _result_to_json(result: ReplayedSuite) -> dict[str, object]:
    if result.report is None:
        return {"suiteId": result.suite_id, "skipped": "no_cassette"}
    return {
        "suiteId": result.suite_id,
        "replayed": result.replayed,
        "passed": result.report.summary.passes,
        "diverged": result.diverged,
        "withoutCassette": result.skipped,
        "report": str(result.directory),
        "errors": {task.id: dict(task.examples) for task in result.report.tasks if task.examples},
    }


def _exit_code(results: list[ReplayedSuite]) -> int:
    """Choose the exit code: a signal first, then a divergence. Replaying nothing is a failure: it tested nothing."""
    from orchestrator.cli.sweep_setup import signal_exit_code

    number = next(
        (result.end.signal for result in results if result.end is not None and result.end.signal is not None), None
    )
    if number is not None:
        return signal_exit_code(number)
    if any(result.diverged for result in results):
        return Exit.DIVERGED
    if not any(result.replayed for result in results) or not all(result.passed for result in results):
        return Exit.FAILED
    return Exit.DONE
