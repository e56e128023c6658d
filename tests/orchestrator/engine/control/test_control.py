import anyio
import pytest

from orchestrator.engine.control.commands import find_active_command, plan_lift
from orchestrator.engine.control.control import Control, describe_author
from store.records import CommandRow

pytestmark = pytest.mark.anyio


def order(verb: str, number: int = 1, why: str = "") -> CommandRow:
    return CommandRow(id=number, verb=verb, who="me@here", why=why, payload={}, at=0)


async def test_a_pause_holds_until_it_is_lifted_and_each_order_is_said_once() -> None:
    said: list[str] = []
    control = Control(said.append)
    for row in (None, order("pause", why="lunch"), order("pause", why="lunch"), order("continue", 2)):
        control.obey_command(row)
        if row is not None and row.verb == "pause":
            assert control.paused == "paused by me@here (lunch)"
    assert control.paused == ""
    assert [text.split(":")[0] for text in said] == ["paused by me@here (lunch)", "continued by me@here"]


async def test_an_order_to_continue_what_is_not_paused_is_no_news() -> None:
    said: list[str] = []
    Control(said.append).obey_command(order("continue"))
    assert said == []


async def test_who_waits_for_a_change_hears_of_each() -> None:
    control = Control()
    heard = []

    async def listen() -> None:
        for _ in range(2):
            await control.changed.wait()
            heard.append(control.pause)

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        control.obey_command(order("pause"))
        await anyio.wait_all_tasks_blocked()
        control.obey_command(order("continue", 2))
    assert heard == [order("pause"), None]


async def test_a_cancel_of_the_sweep_outranks_an_earlier_reason_to_stop() -> None:
    ended = []
    control = Control(on_cancel=lambda: ended.append(1))
    control.start_draining("interrupt", "Ctrl-C")
    control.obey_command(order("cancel", why="wrong model"))
    assert control.why == "cancelled"
    assert "(wrong model)" in control.message
    assert control.running.cancel_called
    control.cancel_runs("terminate", "SIGTERM")
    assert control.why == "cancelled"
    assert ended == [1]


def test_what_a_person_wrote_is_harmless() -> None:
    assert describe_author(order("pause", why="a\x1b[2Jb\nc")) == "me@here (ab c)"


@pytest.mark.parametrize(
    ("verbs", "holds"),
    [
        ((), None),
        (("pause",), "pause"),
        (("pause", "raise_cap"), "pause"),
        (("pause", "continue"), None),
        (("pause", "cancel"), "cancel"),
        (("cancel", "continue"), None),
    ],
)
def test_the_last_order_holds(verbs: tuple[str, ...], holds: str | None) -> None:
    found = find_active_command([order(verb, number) for number, verb in enumerate(verbs, 1)])
    assert (None if found is None else found.verb) == holds


def test_resuming_lifts_a_pause_and_a_cancel_only_when_asked_to() -> None:
    assert plan_lift(None, cancelled=True) is None
    assert plan_lift(order("pause"), cancelled=False).why == "resume"
    assert plan_lift(order("cancel"), cancelled=False) is None
    assert plan_lift(order("cancel"), cancelled=True).why == "resume --cancelled"
