"""The bound on a flow's calls is held against every way that small flows can go."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.lab.cells import count_max_calls
from providers.base import Answer, Origin, Request
from providers.decisions.flow import run_flow
from providers.decisions.model import Capability
from providers.errors import ProviderError
from tests.orchestrator.lab.labs import GUARD, JUDGE, gate, said

pytestmark = pytest.mark.anyio

NAMES = ("a", "b", "c", "d")


@st.composite
def flows(draw: Callable[..., Any]) -> Capability:
    """Up to four nodes that ask, in any order, with fallbacks that lead to no circle, and a rule among them."""
    names = NAMES[: draw(st.integers(1, 4))]
    nodes = []
    for place, name in enumerate(names):
        fallback = draw(st.none() | st.sampled_from(names[place + 1 :])) if names[place + 1 :] else None
        nodes.append(attrs.evolve(JUDGE, id=name, fallback=fallback, decides=draw(st.booleans())))
    return gate(*draw(st.permutations([*nodes, GUARD])))


async def calls(capability: Capability, way: tuple[str, ...]) -> int:
    """How many answers are asked for where they come to *way*, one after the other; a shared fallback is asked anew."""
    asked = []

    async def ask(request: Request) -> Answer:
        asked.append(request.origin.node)
        if way[(len(asked) - 1) % len(way)] == "fails":
            raise ProviderError(kind="server_error", message="down", retryable=False)
        return Answer(text=json.dumps(said("allow")), finish="stop")

    origin = Origin(suite_id="s", case_id="c", repetition=0)
    await run_flow(capability, {"command": "ls"}, ask_of=lambda _name: ask, origin=origin, clock=None)
    return len(asked)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flows())
async def test_the_bound_is_what_the_longest_way_takes(capability: Capability) -> None:
    most = count_max_calls(capability)
    ways = itertools.product(("answers", "fails"), repeat=most)

    assert max([await calls(capability, way) for way in ways]) == most
