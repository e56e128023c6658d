"""What reaches an endpoint: read off a server that writes down every request."""

import json
from functools import partial
from typing import Any

import anyio.to_thread
import pytest

from tests.e2e.conftest import MakeSuite, tiny
from tests.peers.driver import Driver, Finished
from tests.providers.loopback import serving

pytestmark = pytest.mark.anyio
WEB_SEARCH = {"type": "web_search", "user_location": None}


async def asked(evalctl: Driver, *flags: str, usage: Any = None, answer: str = "done") -> tuple[Finished, list[Any]]:
    """Run against a server that says *answer*; what it was asked, in order."""

    async def script(exchange: Any) -> None:
        await exchange.head()
        await exchange.event({"model": "m", "choices": [{"index": 0, "delta": {"content": answer}}]})
        await exchange.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
        await exchange.event(b"[DONE]")
        await exchange.end()

    async with serving(script) as server:
        run = partial(evalctl.run, *flags, "--provider", "openai", "--model", "m", "--base-url", server.url)
        done = await anyio.to_thread.run_sync(run)
        return done, [json.loads(body) for _, _, body in server.requests]


def configure(evalctl: Driver, **document: Any) -> None:
    (evalctl.home / "evalctl.json").write_text(json.dumps({"schemaVersion": 1, **document}), encoding="utf-8")


async def test_agent_effort_and_native_tools_reach_the_endpoint(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite({"plain": "Say so."})
    document = json.loads((suite / "suite.json").read_text(encoding="utf-8"))
    document["tasks"].append({**document["tasks"][0], "id": "own", "agent": "terse"})
    (suite / "suite.json").write_text(json.dumps(document), encoding="utf-8")
    definitions = {"terse": {"instructions": "Be terse."}, "careful": {"instructions": "Be careful."}}
    configure(
        evalctl,
        agents={"active": "careful", "definitions": definitions},
        reasoningEffort="low",
        nativeTools=[WEB_SEARCH],
        limits={"maxOutputTokens": 77},
    )

    done, bodies = await asked(evalctl, "--json", *tiny(suite, "--k", "1", "--concurrency", "1"))

    assert done.code == 0, done.stderr
    assert {body["messages"][0]["content"] for body in bodies} == {"Be careful.", "Be terse."}
    for body in bodies:
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        assert (body["reasoning_effort"], body["max_tokens"]) == ("low", 77)
        assert body["tools"][-1] == WEB_SEARCH
        assert [tool["function"]["name"] for tool in body["tools"][:-1]] == ["read_file", "list_files", "search_text"]
        assert body.keys() & {"seed", "purpose", "turn", "origin"} == set()
    hashes = done.json["conditions"]["configHash"]
    assert len(hashes) == 2


async def test_what_is_not_configured_is_not_sent(evalctl: Driver, make_suite: MakeSuite) -> None:
    done, (body,) = await asked(evalctl, *tiny(make_suite({"one": "Say so."}), "--k", "1"))

    assert done.code == 0, done.stderr
    assert body.keys() == {"model", "messages", "stream", "stream_options", "tools"}
    assert all(tool["type"] == "function" for tool in body["tools"])


async def test_usage_that_no_endpoint_reports_is_an_incident_and_no_figure(
    evalctl: Driver, make_suite: MakeSuite
) -> None:
    done, _ = await asked(evalctl, "--json", *tiny(make_suite({"one": "Say so."}), "--k", "2"))

    summary = done.json["summary"]
    assert summary["incidents"] == {"usage_unreported": 2}
    assert "totalTokens" not in summary["measured"]
    assert summary["measured"]["usageRuns"] == 0


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_private_page_is_fetched_only_where_the_user_allows_it(
    evalctl: Driver, make_suite: MakeSuite, allowed: bool
) -> None:
    async def page(exchange: Any) -> None:
        await exchange.whole(b"the page", content_type="text/plain")

    if allowed:
        (evalctl.home / "config").mkdir()
        document = {"schemaVersion": 1, "fetch": {"allowPrivate": True}}
        (evalctl.home / "config" / "config.json").write_text(json.dumps(document), encoding="utf-8")
    async with serving(page) as server:
        fetch = {"id": "f", "name": "fetch_url", "arguments": {"url": server.url}}
        script = {"format": "evalctl.script/1", "plays": [{"answers": [{"toolCalls": [fetch]}, {"text": "done"}]}]}
        suite = make_suite({"one": "Look."}, allow=["external"], scripts={"one": script})
        done = await anyio.to_thread.run_sync(partial(evalctl.run, *tiny(suite, "--k", "1", "--allow-external")))
        assert done.code == 0, done.stderr
        shown = await anyio.to_thread.run_sync(partial(evalctl.run, "--json", "show", "last/1"))

    (completed,) = [event for event in shown.json["events"] if event["kind"] == "tool_completed"]
    assert completed["is_error"] is not allowed
    assert ("the page" if allowed else "private network") in completed["output"]
    assert len(server.requests) == int(allowed)
