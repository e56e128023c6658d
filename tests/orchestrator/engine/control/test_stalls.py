"""What a run waits for at the gate is known while it waits, and its attempt can be ended with that."""

import anyio
import pytest

from orchestrator.engine.control.waits import Stalled, WaitKind
from orchestrator.engine.ending import result_of_error
from providers.base import Answer, Emit, Provider, Request
from providers.errors import ProviderError
from store.rows import Amount
from tests.orchestrator.engine.gate.test_gate import ANSWER, REQUEST, Replies, opened
from tests.orchestrator.engine.plain_ports import PlainBudget

pytestmark = pytest.mark.anyio


class Hung:
    """A provider that never answers."""

    name = "hung"
    account = "hung#1"

    def size(self, request: Request) -> int:
        return 1

    async def answer(self, request: Request, emit: Emit) -> Answer:
        await anyio.sleep_forever()
        raise AssertionError

    async def aclose(self) -> None: ...


class NoRoom(PlainBudget):
    async def reserve(self, bound: Amount) -> None:
        await anyio.sleep_forever()


def refused() -> ProviderError:
    return ProviderError(kind="server_error", message="no", retryable=True)


@pytest.mark.parametrize("what", ["answer", "permit", "budget", "retry"])
async def test_a_wait_at_the_gate_has_a_name_and_can_be_ended_with_it(what: WaitKind) -> None:
    providers: dict[str, Provider] = {"answer": Hung(), "retry": Replies([refused()])}
    provider = providers.get(what, Replies([ANSWER]))
    ask, _, gate = opened(provider, limit=1, budget=NoRoom() if what == "budget" else None)
    gate.sleep = lambda _seconds: anyio.sleep_forever()
    if what == "permit":
        await gate.permits.take_permit(0)
    ended = anyio.Event()

    async def attempt() -> None:
        with ask.requests.stall_scope.scope:
            await ask(REQUEST)
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(attempt)
        await anyio.wait_all_tasks_blocked()
        [wait] = gate.waits.open
        assert (wait.kind, wait.run) == (what, 7)
        assert (wait.until is not None) == (what == "retry")
        wait.give_up(Stalled(what, 600.0))
        with anyio.fail_after(5):
            await ended.wait()
    assert gate.waits.open == set()
    assert gate.permits.governor.in_flight == (what == "permit")
    assert ask.requests.stall_scope.error.kind == what


async def test_nothing_is_open_after_an_answer_and_something_has_happened() -> None:
    ask, _, gate = opened(Replies([ANSWER]))
    gate.waits.progressed = False
    await ask(REQUEST)
    assert gate.waits.open == set()
    assert gate.waits.progressed


@pytest.mark.parametrize(
    ("what", "outcome", "reason"),
    [
        ("answer", "error", "provider"),
        ("retry", "error", "provider"),
        ("permit", "error", "provider"),
        ("budget", "skipped", "budget"),
    ],
)
def test_a_stall_ends_a_run_with_the_name_of_the_wait(what: WaitKind, outcome: str, reason: str) -> None:
    found = result_of_error(Stalled(what, 600.0))
    assert (found.outcome, found.reason) == (outcome, reason)
    assert found.message.startswith("waited for ")
