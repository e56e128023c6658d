from pathlib import Path
from typing import Any

from orchestrator.suite.effects import Grants
from orchestrator.suite.kind import SuiteKind
from orchestrator.suite.model import Suite, Task, TaskBudget
from orchestrator.suite.settings import Settings
from providers.base import AgentSettings
from providers.registry import ProviderOptions, find_provider
from verifiers.command import Command
from verifiers.files import FileAbsent


def longest(*tasks: Task) -> float:
    suite = Suite(
        suite_id="s", suite_version="1", description="", tasks=tasks, root=Path("/"), bundled=False, content={}
    )
    provider = find_provider("openai")(ProviderOptions(base_url="http://127.0.0.1:1"))
    settings = Settings(
        suite="s", provider="openai", model="m", agent=AgentSettings(), config_hash="c", grants=Grants()
    )
    return SuiteKind(suite=suite, tasks=tasks, settings=settings, provider=provider).max_run_s


def task(wall_ms: int, *verifiers: Any) -> Task:
    return Task(
        id="t", prompt="", fixture="f", budget=TaskBudget(max_turns=1, max_wall_ms=wall_ms), verifiers=verifiers
    )


def test_no_budget_and_no_verifier_is_longer_than_what_work_may_take() -> None:
    command = Command(id="c", command=("true",), timeout_ms=5000)
    assert longest(task(1000, command, command), task(2000)) == 11
    assert longest(task(1000, FileAbsent(id="f", path="x"))) >= 1
