"""Packages of somebody else's, installed beside evalctl for one test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.peers.driver import Driver, driving

PACKAGE = Path(__file__).parent / "package"


@pytest.fixture(scope="session")
def parrot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has put the package; nothing is downloaded, the build back end is a development dependency."""
    site = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    argv += ["--disable-pip-version-check", "--target", str(site), str(PACKAGE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return site


InstallSource = Callable[..., None]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder for packages that a test writes itself."""
    folder = tmp_path / "written"
    folder.mkdir()
    return folder


@pytest.fixture
def install(site: Path) -> InstallSource:
    """Leave a module and its metadata in `site` as an installer would."""

    def install(
        name: str, source: str, *, providers: Mapping[str, str] = {}, verifiers: Mapping[str, str] = {}
    ) -> None:
        (site / f"{name}.py").write_text(source, encoding="utf-8")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="ascii")
        groups = {"evalctl.providers": providers, "evalctl.verifiers": verifiers}
        lines = [
            f"[{group}]\n" + "".join(f"{point} = {name}:{attribute}\n" for point, attribute in points.items())
            for group, points in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="ascii")

    return install


@pytest.fixture
def evalctl(tmp_path: Path, parrot: Path, site: Path) -> Iterator[Driver]:
    """The command where the parrot is installed, and whatever the test writes into `site`."""
    with driving(tmp_path, PYTHONPATH=os.pathsep.join([str(parrot), str(site)])) as driver:
        yield driver
