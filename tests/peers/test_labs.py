"""A lab whose backends nobody here wrote: aimock in every wire format that it speaks, and litellm's proxy."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.lab_files import ALLOWED, answering, run_directory, said, write_lab
from tests.peers.aimock import running_aimock
from tests.peers.driver import Driver, Finished, driving, running_endpoint
from tests.peers.litellm import MASTER_KEY, Litellm, running_litellm

pytestmark = pytest.mark.peers

SHAPES = ["openai", "openai-responses", "anthropic", "ollama"]
NEVER = [{"cel": "status == 'ok' && decision.verdict == 'deny'", "why": "what deletes is never allowed"}]
FIXTURES: dict[str, dict[str, Any]] = {
    "look": {"command": "ls -l"},
    "delete": {"command": "rm -rf /srv", "expect": NEVER},
    "limit": {"command": "ratelimit", "expect": [*NEVER, ALLOWED]},
}
AIMOCK = {
    "fixtures": [
        {"match": {"userMessage": "rm -rf /srv"}, "response": {"content": said("deny", 0.97)}},
        {"match": {"userMessage": "ls -l"}, "response": {"content": f"Sure:\n```json\n{said()}\n```"}},
        {
            "match": {"userMessage": "ratelimit"},
            "response": {"error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429},
        },
    ]
}


@pytest.fixture
def evalctl(tmp_path: Path) -> Iterator[Driver]:
    with driving(tmp_path, GATEWAY_KEY=MASTER_KEY) as driver:
        yield driver


def aimed(root: Path, backends: dict[str, Any], model: str = "peer-1") -> None:
    """Give the lab a target for each of *backends*, called as they are."""
    config = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))
    config["backends"] |= backends
    (root / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    lab = yaml.safe_load((root / "lab.yaml").read_text(encoding="utf-8"))
    lab["targets"] = {name: {"backend": name, "model": model} for name in backends}
    (root / "lab.yaml").write_text(yaml.safe_dump(lab), encoding="utf-8")


def decided(home: Path) -> dict[tuple[str, str], tuple[str, str, Any]]:
    """What each fixture came to under each target, from the newest results."""
    lines = (run_directory(home) / "results.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return {(one["fixture"], one["target"]): (one["outcome"], one.get("status"), one.get("decision")) for one in found}


def test_every_wire_format_decides_alike_and_is_played_as_it_was_recorded(evalctl: Driver, tmp_path: Path) -> None:
    file = tmp_path / "fixtures.json"
    file.write_text(json.dumps(AIMOCK), encoding="utf-8")
    with running_aimock(tmp_path, fixtures=file) as aimock:
        root = write_lab(evalctl.home, fixtures={name: FIXTURES[name] for name in ("look", "delete")})
        aimed(root, {shape: {"kind": shape, "base_url": aimock.base_url(shape)} for shape in SHAPES})
        live = evalctl.run("lab", "live", "--yes", "--repeat", "2", patience_s=300)
        measured = decided(evalctl.home)
        recorded = evalctl.run("lab", "record", "--yes", patience_s=300)
        asked = len(aimock.journal())

    offline = evalctl.run("lab", "offline")

    assert live.code == 0, live.stderr
    assert recorded.code == 0, recorded.stderr
    assert offline.code == 0, offline.stderr
    assert asked == 16 + 8
    assert measured == decided(evalctl.home)
    for shape in SHAPES:
        assert measured["look", shape] == ("pass", "ok", {"verdict": "allow"})
        assert measured["delete", shape] == ("pass", "ok", {"verdict": "deny"})


def test_a_limit_of_a_backend_is_an_error_of_infrastructure(evalctl: Driver, tmp_path: Path) -> None:
    file = tmp_path / "fixtures.json"
    file.write_text(json.dumps(AIMOCK), encoding="utf-8")
    with running_aimock(tmp_path, fixtures=file) as aimock:
        root = write_lab(evalctl.home, fixtures=FIXTURES)
        aimed(root, {"openai": {"kind": "openai", "base_url": aimock.url}})
        done = evalctl.run("lab", "live", "--yes", "--max-calls", "8", "--max-stall", "5s", patience_s=300)

    found = decided(evalctl.home)

    assert done.code == 1, done.stderr
    assert found["look", "openai"][0] == "pass"
    assert found["limit", "openai"][0] in {"error", "skipped"}


@pytest.fixture(scope="module")
def litellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Litellm]:
    folder = tmp_path_factory.mktemp("litellm")
    with (
        running_endpoint(folder / "ledger.jsonl", answering()) as behind,
        running_litellm(folder, behind) as peer,
    ):
        yield peer


def through(evalctl: Driver, litellm: Litellm, *arguments: str) -> Finished:
    shapes = ["openai", "openai-responses", "anthropic"]
    root = write_lab(evalctl.home, fixtures={"look": FIXTURES["look"]}, repeat=3)
    backends = {shape: {"kind": shape, "base_url": litellm.url, "api_key_env": "GATEWAY_KEY"} for shape in shapes}
    aimed(root, backends, "passed-through")
    return evalctl.run("lab", *arguments, patience_s=300)


def test_a_gateway_is_a_backend_in_three_wire_formats_and_its_key_is_nowhere(evalctl: Driver, litellm: Litellm) -> None:
    done = through(evalctl, litellm, "live", "--yes")

    assert done.code == 0, done.stderr
    assert {ending[:2] for ending in decided(evalctl.home).values()} == {("pass", "ok")}
    assert evalctl.number("SELECT count(*) FROM outcome") == 9
    left = b"".join(file.read_bytes() for file in evalctl.home.rglob("*") if file.is_file())
    assert MASTER_KEY.encode() not in left


def test_through_a_gateway_what_records_is_what_is_played(evalctl: Driver, litellm: Litellm) -> None:
    recorded = through(evalctl, litellm, "record", "--yes")
    offline = evalctl.run("lab", "offline")

    assert recorded.code == 0, recorded.stderr
    assert offline.code == 0, offline.stderr
