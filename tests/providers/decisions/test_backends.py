from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from providers.base import Origin, Provider, Request, UserText
from providers.decisions import backends
from providers.decisions.backends import open_providers
from providers.decisions.model import Backend, Capability, DaemonConfig, ExecNode, HttpNode, ModelNode, RuleNode
from store.errors import UsageError

pytestmark = pytest.mark.anyio

KEY = "sk-house-0123456789"


def model(node_id: str, backend: str, **more: Any) -> ModelNode:
    return ModelNode(id=node_id, prompt="p", backend=backend, model="m-1", answer={}, **more)


def capability(name: str, *flow: ExecNode | HttpNode | ModelNode | RuleNode) -> Capability:
    return Capability(name=name, input_schema={}, flow=flow)


def daemon(*capabilities: Capability, **backends: Any) -> DaemonConfig:
    return DaemonConfig(
        backends={name: Backend(name=name, **said) for name, said in backends.items()},
        capabilities={one.name: one for one in capabilities},
    )


HOUSE = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "HOUSE_KEY"}
LOCAL = {"kind": "ollama", "base_url": "http://127.0.0.1:9"}


def keys(asked: list[Any] | None = None) -> Callable[..., tuple[str | None, str | None]]:
    def key_of(variable: str | None, kind: str) -> tuple[str | None, str | None]:
        if asked is not None:
            asked.append((kind, variable))
        return (variable, KEY) if variable else (None, None)

    return key_of


async def closed(providers: Mapping[str, Provider]) -> None:
    for provider in providers.values():
        await provider.aclose()


async def test_everybody_is_opened_once_by_the_name_that_flows_ask_by(tmp_path: Path) -> None:
    gate = capability(
        "gate",
        RuleNode(id="r", when="true", decision=1),
        ExecNode(id="e", command=("true",)),
        model("a", "house"),
        model("b", "house"),
        HttpNode(id="h", url="https://vendor.example/x"),
    )
    route = capability("route", model("a", "local"), ExecNode(id="e", command=("true",)))

    providers = open_providers(
        daemon(gate, route, house=HOUSE, local=LOCAL, unused=HOUSE),
        [gate, route, gate],
        key_of=keys(),
        base=tmp_path,
    )

    assert list(providers) == ["exec:gate/e", "house", "http:gate/h", "local", "exec:route/e"]
    assert {name for name in providers if providers[name].name != name} == {"house", "local"}
    assert len({provider.account for provider in providers.values()}) == 5
    for one in (gate, route):
        assert {one.find_provider_name(node) for node in one.list_asking_nodes()} <= set(providers)
    await closed(providers)


async def test_each_is_opened_with_its_own_credential_which_is_shown_nowhere(tmp_path: Path) -> None:
    asked: list[Any] = []
    gate = capability(
        "gate",
        model("a", "house"),
        model("b", "local"),
        HttpNode(id="h", url="https://vendor.example/x", api_key_env="VENDOR_KEY"),
        HttpNode(id="open", url="https://vendor.example/x"),
    )

    providers = open_providers(daemon(gate, house=HOUSE, local=LOCAL), [gate], key_of=keys(asked), base=tmp_path)

    assert asked == [("openai", "HOUSE_KEY"), ("ollama", None), ("http", "VENDOR_KEY"), ("http", None)]
    assert providers["http:gate/h"].account != providers["http:gate/open"].account
    assert KEY not in repr(providers)
    await closed(providers)


async def test_a_key_that_is_missing_is_the_users_mistake(tmp_path: Path) -> None:
    def key_of(variable: str, _kind: str) -> None:
        raise UsageError(f"the environment variable {variable} is not set")

    gate = capability("gate", HttpNode(id="h", url="https://vendor.example/x", api_key_env="VENDOR_KEY"))

    with pytest.raises(UsageError, match="VENDOR_KEY is not set"):
        open_providers(daemon(gate), [gate], key_of=key_of, base=tmp_path)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"house": HOUSE}, "node 'a' names the backend 'hose', which is not defined\nDefined backends: house."),
        ({"hose": {"kind": "opnai"}}, "there is no provider 'opnai'\nDid you mean 'openai'?"),
        ({"hose": {**HOUSE, "base_url": "nowhere"}}, "the base URL 'nowhere' is not an http or https URL"),
    ],
)
async def test_a_backend_that_cannot_be_opened_is_the_users_mistake(
    tmp_path: Path, known: dict[str, Any], message: str
) -> None:
    gate = capability("gate", model("a", "hose"))

    with pytest.raises(UsageError) as raised:
        open_providers(daemon(gate, **known), [gate], key_of=keys(), base=tmp_path)
    assert str(raised.value).startswith(message)


async def test_commands_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("{}")
    gate = capability("gate", ExecNode(id="e", command=("cat", "here")))

    providers = open_providers(daemon(gate), [gate], key_of=keys(), base=tmp_path)
    request = Request(
        origin=Origin(suite_id="s", case_id="c", repetition=0),
        model="",
        instructions="",
        messages=(UserText(text="1"),),
    )

    assert (await providers["exec:gate/e"].answer(request, lambda _item: None)).text == "{}"


async def test_nothing_is_opened_for_those_whom_nobody_asks() -> None:
    gate = capability("gate", RuleNode(id="r", when="true", decision=1))

    assert open_providers(daemon(gate, house=HOUSE), [gate], key_of=keys(), base=None) == {}


async def test_a_backend_may_be_silent_as_long_as_the_slowest_node_that_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(backends, "find_provider", lambda kind: lambda options: given.append((kind, options)))
    gate = capability("gate", model("a", "house", timeout_ms=5000), model("b", "house", timeout_ms=300_000))
    route = capability("route", model("a", "house", timeout_ms=100))

    open_providers(
        daemon(gate, route, house=HOUSE),
        [gate, route],
        key_of=keys(),
        base=tmp_path,
        proxy="http://p:1",
        wall=lambda: 7,
        keep_bodies=True,
    )

    [(kind, options)] = given
    assert kind == "openai"
    assert options.first_token_timeout_ms > 300_000
    assert options.idle_timeout_ms > 300_000
    assert (options.api_key, options.api_key_env, options.base_url) == (KEY, "HOUSE_KEY", HOUSE["base_url"])
    assert (options.suite_root, options.proxy, options.wall(), options.keep_bodies) == (tmp_path, "http://p:1", 7, True)
    given.clear()
    open_providers(daemon(gate, house=HOUSE), [gate], key_of=keys(), base=tmp_path, idle_timeout_ms=1500)
    assert (given[0][1].idle_timeout_ms, given[0][1].keep_bodies) == (1500, False)
