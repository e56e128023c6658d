from pathlib import Path

import anyio
import pytest

from orchestrator.provenance import read_provenance, without_credentials

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://mia:hunter2@example.org/a/b.git", "https://example.org/a/b.git"),
        ("https://example.org/a/b.git", "https://example.org/a/b.git"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
    ],
)
def test_a_remote_is_kept_without_user_and_password(url: str, kept: str) -> None:
    assert without_credentials(url) == kept


async def test_the_state_of_the_checkout_is_a_condition_and_its_credentials_are_not(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for words in (["init", "-q", "-b", "main"], ["remote", "add", "origin", "https://mia:hunter2@example.org/a.git"]):
        await anyio.run_process(["git", *words], cwd=tmp_path, env=environment)
    (tmp_path / "new.txt").touch()
    found = (await read_provenance(tmp_path, environment))["git"]
    assert found["branch"] == "main"
    assert found["dirty"] is True
    assert found["remote"] == "https://example.org/a.git"


async def test_outside_a_checkout_there_is_no_git(tmp_path: Path) -> None:
    assert (await read_provenance(tmp_path, {"PATH": "/usr/bin:/bin"}))["git"] is None
