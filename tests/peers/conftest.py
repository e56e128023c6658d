"""A folder and an endpoint for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.driver import Endpoint, running_endpoint


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    with running_endpoint(tmp_path / "ledger.jsonl") as endpoint:
        yield endpoint
