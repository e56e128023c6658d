"""The verb `ci`: replay every recording, and say by the exit code whether the harness still does the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.common import COMMON, Exit, not_ours, print_data, print_error, print_notice

if TYPE_CHECKING:
    from orchestrator.suite.model import Suite
    from orchestrator.suite.recordings.rehearsal import ReplayedSuite


def ci(
    suite_dir: Annotated[
        Path | None,
        typer.Option(
            "--suite-dir",
            metavar="DIR",
            help="A suite, or a directory of suites, instead of the bundled.",
            rich_help_panel=options.WHAT,
        ),
    ] = None,
    cassette_dir: options.CassetteDir = None,
    out_dir: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write DIR/SUITE/report.*. [default: a new temporary directory]",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
) -> None:
    """Replay every cassette of the bundled suites, or of those in --suite-dir.

    Needs no provider, key or network; grants write and process, and uses an empty configuration. It measures the
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
            f"goes with one suite, and there are {len(suites)}; name it with --suite-dir", param_hint="--cassette-dir"
        )
    hide_environment()
    where = Path(out_dir) if out_dir else Path(tempfile.mkdtemp(prefix="evalctl-ci-", dir=find_temporary_directory()))
    for suite in suites.values():
        if not suite.bundled:
            print_notice(not_ours(suite.root, "recorded tool calls", sandboxed=False))
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {where}: {error.strerror or error}") from error
    found = replay_suites(suites, cassette_dir, where, real_world(), print_notice)
    _print_results(found, where)
    code = _exit_code(found)
    if code == Exit.FAILED and not any(one.replayed for one in found):
        print_error("nothing was replayed: no suite has a cassette\nRecord some: evalctl record SUITE.")
    raise typer.Exit(code)


def _find_suites(suite_dir: Path | None) -> dict[str, Suite]:
    """The suites to replay, by id: the bundled ones, or those of a directory in their place."""
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


def _print_results(found: list[ReplayedSuite], where: Path) -> None:
    import json

    from orchestrator.reports.phrases import format_error

    if COMMON.json:
        print_data(json.dumps({"schema": "evalctl.ci/1", "suites": [_result_to_json(one) for one in found]}))
        return
    print_data("REPLAY: this measures the harness, not the model.")
    for one in found:
        print_data(_result_line(one))
        for task in one.report.tasks if one.report is not None else ():
            for cause, message in task.examples.items():
                print_data(f"error({cause}) in {one.suite_id}/{task.id}: {format_error(cause, message)}")
            if task.figures.judged and not task.figures.passes:
                print_data(f"{one.suite_id}/{task.id} was replayed and did not pass")
    print_data(f"reports: {where}")


def _result_line(one: ReplayedSuite) -> str:
    if one.report is None:
        return f"{one.suite_id}: skipped, it has no cassettes"
    from orchestrator.text import format_count

    passes = one.report.summary.passes
    skipped = f", {format_count(one.skipped, 'task')} skipped (no cassette)" if one.skipped else ""
    return f"{one.suite_id}: {passes} of {one.replayed} replayed and passed, {one.diverged} diverged{skipped}"


def _result_to_json(one: ReplayedSuite) -> dict[str, object]:
    if one.report is None:
        return {"suiteId": one.suite_id, "skipped": "no_cassette"}
    return {
        "suiteId": one.suite_id,
        "replayed": one.replayed,
        "passed": one.report.summary.passes,
        "diverged": one.diverged,
        "withoutCassette": one.skipped,
        "report": str(one.directory),
        "errors": {task.id: dict(task.examples) for task in one.report.tasks if task.examples},
    }


def _exit_code(found: list[ReplayedSuite]) -> int:
    """2 beats everything but a signal; what was not replayed at all is a misconfiguration, not a pass."""
    from orchestrator.cli.sweep_setup import signal_exit_code

    number = next((one.end.signal for one in found if one.end is not None and one.end.signal is not None), None)
    if number is not None:
        return signal_exit_code(number)
    if any(one.diverged for one in found):
        return Exit.DIVERGED
    if not any(one.replayed for one in found) or not all(one.passed for one in found):
        return Exit.FAILED
    return Exit.DONE
