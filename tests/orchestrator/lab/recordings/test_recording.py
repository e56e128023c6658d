"""Cassettes are on the disk before the result they belong to is stored."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.lab.cells import list_live_cells
from orchestrator.lab.model import Expectation, Lab
from orchestrator.lab.recordings.offline import find_self_answering_cases
from orchestrator.lab.recordings.recording import Recording
from orchestrator.lab.running import build_settings, open_priced_providers
from orchestrator.lab.selection import select_cases
from providers.base import Answer, Request
from providers.errors import ProviderError
from store.errors import UsageError
from store.rows import Caps
from store.secrets.redactor import Redactor
from tests.orchestrator.lab.labs import JEV, fixture, lab, said
from tests.orchestrator.lab.sweeps import Answering, always, swept

pytestmark = pytest.mark.anyio


async def recorded(
    found: Lab, tmp_path: Path, answers: Callable[..., Any], *, on_result: Callable[..., Any] | None = None
) -> tuple[bool, list[str], list[str]]:
    """Record the lab; whether all was written, what was said, and what has to be told in quiet too."""
    unplayed = await find_self_answering_cases(found, found.cases)
    recording = Recording(lab=found, redactor=Redactor([]), unplayed=unplayed)
    cells = tuple(list_live_cells(found.daemon.capabilities, select_cases(found), "offline"))
    settings = build_settings(found, cells, mode="record", caps=Caps(calls=100))
    asked = recording.record_providers(
        open_priced_providers(cells, {}, lambda _capabilities: {"house": Answering(answers)})
    )
    more = {"on_result": on_result} if on_result is not None else {}
    await swept(found, cells, settings, asked, tmp_path / "runs.db", on_ending=recording.record_ending, **more)
    lines: list[str] = []
    complaints: list[str] = []
    return recording.report_written(lines.append, complaints.append), lines, complaints


def there(tmp_path: Path) -> list[str]:
    return sorted(str(file.relative_to(tmp_path)) for file in (tmp_path / "cassettes").rglob("*.json"))


async def test_a_cassette_is_there_before_its_result_counts(tmp_path: Path) -> None:
    found = lab(fixture("a"), fixture("b"), root=tmp_path)
    seen = []

    await recorded(
        found, tmp_path, always("allow"), on_result=lambda _sweep, _position: seen.append(len(there(tmp_path)))
    )

    assert len(seen) == 4
    assert all(cassettes >= results for results, cassettes in enumerate(seen, start=1))


async def test_a_fixture_that_is_only_for_live_is_not_recorded(tmp_path: Path) -> None:
    found = lab(fixture("a", modes=("live",)), fixture("b", modes=("offline",)), root=tmp_path, targets=(JEV,))

    whole, lines, complaints = await recorded(found, tmp_path, always("allow"))

    assert whole
    assert not complaints
    assert there(tmp_path) == ["cassettes/gate/b/jev.json"]
    assert lines[0] == "wrote cassettes/gate/b/jev.json"


async def test_a_refused_credential_leaves_no_cassette_whatever_the_fixture_expects(tmp_path: Path) -> None:
    async def refused(request: Request) -> None:
        raise ProviderError(kind="auth", message="no such key", retryable=False, status=401)

    found = lab(
        fixture("a", expect=(Expectation(cel="status == 'error'", why="refused"),)), root=tmp_path, targets=(JEV,)
    )

    whole, lines, complaints = await recorded(found, tmp_path, refused)

    assert not whole
    assert not (tmp_path / "cassettes").exists()
    assert complaints == ["no cassette written for gate/a, jev: its decision failed for auth"]
    assert len(lines) == 1


async def test_a_run_that_did_not_pass_is_recorded_with_a_warning(tmp_path: Path) -> None:
    found = lab(fixture("a"), root=tmp_path, targets=(JEV,))

    whole, lines, _ = await recorded(found, tmp_path, always("deny"))

    assert whole
    assert "warning: gate/a, jev did not pass, and its replay will not either" in lines
    cassette = json.loads((tmp_path / "cassettes/gate/a/jev.json").read_text(encoding="utf-8"))
    assert cassette["answers"]["judge"][0]["status"] == 200


async def test_a_cassette_that_the_fixtures_own_replay_comes_before_is_told_not_to_be_played(tmp_path: Path) -> None:
    found = lab(fixture("a", replay={"judge": said("allow")}), fixture("b"), root=tmp_path, targets=(JEV,))

    _, lines, _ = await recorded(found, tmp_path, always("deny"))

    assert [line for line in lines if line.startswith("warning")] == [
        "warning: gate/a, jev is never played: the fixture's own replay answers every call",
        "warning: gate/b, jev did not pass, and its replay will not either",
    ]


async def test_a_secret_refuses_its_cassette_alone(tmp_path: Path) -> None:
    async def leaking(request: Request) -> Answer:
        answer = await always("allow")(request)
        return (
            answer if "b" in request.messages[0].text else type(answer)(text=answer.text + " sk-Q7vX2mJ9pL4tR8wZ1nC5")
        )

    found = lab(fixture("a", command="ls a"), fixture("c", command="b"), root=tmp_path, targets=(JEV,))

    whole, lines, complaints = await recorded(found, tmp_path, leaking)

    assert not whole
    assert there(tmp_path) == ["cassettes/gate/c/jev.json"]
    assert [text.partition(": answers")[0] for text in complaints] == ["no cassette written for gate/a, jev: jev.json"]
    assert "sk-Q7" not in "".join([*lines, *complaints])


def test_an_installed_lab_is_refused() -> None:
    with pytest.raises(UsageError, match="part of the installed package"):
        Recording(lab=lab(bundled=True), redactor=Redactor([]))


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_lab_that_takes_no_cassettes_is_told_before_anybody_is_asked(tmp_path: Path, kind: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "cassettes"
    if kind == "link":
        place.symlink_to("elsewhere")
    else:
        place.write_text("", encoding="utf-8")

    with pytest.raises(UsageError, match="no cassettes are written there"):
        Recording(lab=lab(fixture("a"), root=tmp_path), redactor=Redactor([]))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_lab_that_cannot_be_written_to_is_told_before_anybody_is_asked(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(UsageError, match="is not writable, so no cassettes can be written there"):
            Recording(lab=lab(fixture("a"), root=tmp_path), redactor=Redactor([]))
    finally:
        tmp_path.chmod(0o755)
