from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.engine.descriptors import describe_exhaustion, fit_concurrency

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "fits"),
    [
        (64, 64, 60, "4 64"),
        (64, 64, 4, "4 64"),
        (20, 20, 8, "1 20"),
        (256, 256, 100, "36 256"),
        (256, 256, 36, "36 256"),
        (256, 1024, 100, "100 640"),
        (64, 128, 100, "14 128"),
        (1024, 1024, 4, "4 1024"),
    ],
)
def test_concurrency_fits_the_limit_which_is_raised_as_far_as_it_goes(
    soft: int, hard: int, wanted: int, fits: str
) -> None:
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        f"from orchestrator.engine.descriptors import fit_concurrency; print(*fit_concurrency({wanted}))"
    )
    if hard > resource.getrlimit(resource.RLIMIT_NOFILE)[1]:
        pytest.skip("this machine allows fewer descriptors")
    seen = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    assert seen.stdout.strip() == fits


def test_limit_that_is_high_enough_stays() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert fit_concurrency(1)[0] == 1
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_exhaustion_is_described_and_nothing_else() -> None:
    full = OSError(errno.EMFILE, "Too many open files")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    says = f"no file descriptor is left (`ulimit -n` is {limit}): raise the limit, or lower --concurrency"
    assert describe_exhaustion(full) == says
    assert describe_exhaustion(OSError(errno.ENFILE, "")) == "the system has no file descriptor left for this process"
    assert describe_exhaustion(ExceptionGroup("", [full, ExceptionGroup("", [full])])) == says
    assert describe_exhaustion(ExceptionGroup("", [full, OSError(errno.ENOSPC, "")])) is None
    assert describe_exhaustion(OSError(errno.ENOENT, "")) is None
    assert describe_exhaustion(ValueError()) is None
