"""What holds for every test."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# How fast a machine draws examples, and how busy it is, says nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell starts what it runs in the background with Ctrl-C ignored, and nohup ignores hang-ups; programs inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)


@pytest.fixture
def anyio_backend() -> str:
    """aiosqlite runs on asyncio alone."""
    return "asyncio"
