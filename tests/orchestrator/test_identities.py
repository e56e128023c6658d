"""Fingerprints, digests and documents of the bundled suites and the lab stay what they were, to the byte."""

import json

import pytest

from tests.orchestrator.identities import LAB, RECORDED, SUITES, lines_of

KNOWN = RECORDED.read_text().splitlines()


def known(name: str) -> list[str]:
    return [line for line in KNOWN if json.loads(line)["plan"].split()[0] == name]


@pytest.mark.parametrize("name", [*SUITES, LAB])
def test_cells_are_identified_as_they_were(name: str) -> None:
    assert lines_of(name) == known(name)


def test_every_line_belongs_to_something_that_is_bundled() -> None:
    assert {json.loads(line)["plan"].split()[0] for line in KNOWN} == {*SUITES, LAB}
