"""Every fault of the catalogue through the installed command, against the data file; then all of them at random."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.peers.driver import running_endpoint
from tests.peers.fault_runs import Case, Seen, cases, differences, meet
from tests.peers.faults import FAULTS

CASES = cases()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Seen]:
    return meet(tmp_path_factory.mktemp("faults"), CASES)


def test_the_data_file_has_every_row_of_the_catalogue_once() -> None:
    assert sorted({case.row for case in CASES}) == list(range(1, 35))
    assert len({case.id for case in CASES}) == len(CASES)


def test_every_fault_of_the_server_is_expected_somewhere() -> None:
    assert {case.fault for case in CASES} == {*FAULTS, "refused"}


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_fault_comes_to_what_was_expected(case: Case, seen: Mapping[str, Seen]) -> None:
    assert differences(case, seen[case.id]) == []


def test_by_hand_every_request_meets_the_fault_that_is_named(tmp_path: Path) -> None:
    with running_endpoint(tmp_path / "ledger.jsonl", program="faults", more=("--fault", "15")) as endpoint:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        answer = endpoint.call("POST", "/v1/chat/completions", body)
        assert answer["error"]["code"] == "model_not_found"
        assert [line["status"] for line in endpoint.idle()] == [404]
