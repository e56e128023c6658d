import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from providers.base import Answer, Emit, Provider, Request, Responded, TextDelta
from providers.contract import SAMPLE_REQUEST, TEST_CREDENTIAL, Wire, check_answer, check_provider
from providers.endpoints.anthropic import AnthropicMessages
from providers.endpoints.endpoint import Endpoint
from providers.endpoints.ollama import OllamaChat
from providers.endpoints.openai import OpenAIChat
from providers.endpoints.responses import OpenAIResponses
from providers.endpoints.typesafe import Typesafe
from providers.errors import ProviderError
from providers.registry import BUILT_IN_PROVIDERS, ProviderOptions, find_provider, list_provider_names
from providers.scripted.scripted import open_provider as open_scripted
from providers.system.http import HttpPool
from providers.usage import Usage

pytestmark = pytest.mark.anyio
GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-provider.md"


def sse(*chunks: dict[str, Any]) -> list[bytes]:
    return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]


def wire(pieces: list[bytes], content_type: str = "text/event-stream") -> Wire:
    """Answers whose last two pieces are the end."""
    return Wire(content_type=content_type, answer=b"".join(pieces), text="Hello.", begun=b"".join(pieces[:-2]))


def chat(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def block_text(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def line(text: str, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "message": {"content": text}, "done": False} | fields).encode() + b"\n"


WIRES: dict[str, tuple[type[Endpoint[Any]], Wire]] = {
    "openai": (OpenAIChat, wire([*sse(chat("Hel"), chat("lo."), chat("", "stop")), b"data: [DONE]\n\n"])),
    "anthropic": (
        AnthropicMessages,
        wire(
            sse(
                {"type": "message_start", "message": {"model": "m"}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                block_text("Hel"),
                block_text("lo."),
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
            )
        ),
    ),
    "openai-responses": (
        OpenAIResponses,
        wire(
            sse(
                {"type": "response.output_text.delta", "output_index": 0, "delta": "Hel"},
                {"type": "response.output_text.delta", "output_index": 0, "delta": "lo."},
                {"type": "response.output_text.done", "output_index": 0, "text": "Hello."},
                {"type": "response.completed", "response": {"status": "completed"}},
            )
        ),
    ),
    "ollama": (
        OllamaChat,
        wire([line("Hel"), line("lo."), b"\n", line("", done=True, done_reason="stop")], "application/x-ndjson"),
    ),
    "typesafe": (
        Typesafe,
        Wire(
            content_type="application/json",
            answer=b'{"model": "m", "answers": {"urgent": {"type": "noul", "noul": 0.75}}}',
            text='{"answer": {"urgent": true}, "confidence": 0.75}',
            begun=b'{"model": "m", "answers": {"urg',
            document=True,
            request=attrs.evolve(
                SAMPLE_REQUEST, answer_schema={"type": "object", "properties": {"urgent": {"type": "boolean"}}}
            ),
        ),
    ),
}


def opening(kind: Callable[..., Provider]) -> Callable[[str, str], Provider]:
    return lambda url, key: kind(base_url=url, api_key=key, pool=HttpPool())


@pytest.mark.parametrize("name", sorted(WIRES))
async def test_built_in_endpoints_keep_the_contract(name: str) -> None:
    kind, said = WIRES[name]
    assert await check_provider(opening(kind), said) == []


def test_every_built_in_is_held_to_the_contract() -> None:
    assert {*WIRES, "scripted"} == set(BUILT_IN_PROVIDERS)


async def test_scripted_provider_keeps_what_holds_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = {"format": "evalctl.script/1", "plays": [{"answers": [{"text": "Hello.", "chunks": 3}]}]}
    (tmp_path / "scripts" / "case.json").write_text(json.dumps(script))
    provider = open_scripted(ProviderOptions(suite_root=tmp_path))
    assert await check_answer(provider, SAMPLE_REQUEST) == []


# --- what the kit finds -----------------------------------------------------------------------------------------


class Careless(OpenAIChat):
    """A provider to go wrong with."""


async def broken_rules(kind: Callable[..., Provider], **options: Any) -> set[str]:
    return {violation.rule for violation in await check_provider(opening(kind), WIRES["openai"][1], **options)}


async def test_provider_that_retries_is_found() -> None:
    class Retrying(Careless):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            try:
                return await super().answer(request, emit)
            except ProviderError:
                return await super().answer(request, emit)

    assert {"asks-once", "status-first"} <= await broken_rules(Retrying)


async def test_provider_that_tells_the_status_late_is_found() -> None:
    class Late(Careless):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            kept: list[Any] = []
            answer = await super().answer(request, kept.append)
            for item in kept:
                emit(item)
            return answer

    assert await broken_rules(Late, timely_s=0.5) == {"status-first", "deltas-as-they-come"}


async def test_provider_that_makes_numbers_up_is_found() -> None:
    class Inventive(Careless):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            return attrs.evolve(await super().answer(request, emit), usage=Usage(input=0, output=0))

    assert await broken_rules(Inventive) == {"unreported-is-none"}


async def test_provider_that_raises_its_own_errors_or_shows_the_key_is_found() -> None:
    class Chatty(Careless):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            try:
                return await super().answer(request, emit)
            except ProviderError as error:
                if error.status == 401:
                    raise ValueError("what?") from error
                error.message = f"{error.message}: {TEST_CREDENTIAL}"
                raise

    assert {"provider-error-only", "credential"} <= await broken_rules(Chatty)


async def test_provider_that_changes_the_key_of_the_request_is_found() -> None:
    class Renaming(Careless):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            return await super().answer(attrs.evolve(request, key=request.key + "/again"), emit)

    assert await broken_rules(Renaming) == {"idempotency-key"}


async def test_provider_that_takes_half_an_answer_for_a_whole_one_is_found() -> None:
    class Easygoing(Careless):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            try:
                return await super().answer(request, emit)
            except ProviderError as error:
                return Answer(text=error.text)

    assert "provider-error-only" in await broken_rules(Easygoing)


async def test_provider_that_works_on_after_a_cancellation_is_found() -> None:
    class Stubborn(Careless):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            with anyio.move_on_after(1.3, shield=True):
                return await super().answer(request, emit)
            raise ProviderError(kind="timeout", message="late", retryable=True)

    assert await broken_rules(Stubborn) == {"deltas-as-they-come"}


async def test_provider_of_documents_that_works_on_after_a_cancellation_is_found() -> None:
    class Stubborn(Typesafe):
        async def answer(self, request: Request, emit: Emit) -> Answer:
            with anyio.move_on_after(1.3, shield=True):
                return await super().answer(request, emit)
            raise ProviderError(kind="timeout", message="late", retryable=True)

    violations = await check_provider(opening(Stubborn), WIRES["typesafe"][1])
    assert {violation.rule for violation in violations} == {"cancellation"}


async def test_answer_without_status_or_with_other_deltas_is_found() -> None:
    class Local:
        name = account = "local"

        def size(self, request: Request) -> int:
            return 0

        async def answer(self, request: Request, emit: Emit) -> Answer:
            emit(TextDelta("a"))
            emit(Responded(status=200))
            return Answer(text="b")

        async def aclose(self) -> None:
            pass

    assert {violation.rule for violation in await check_answer(Local(), SAMPLE_REQUEST)} == {
        "status-first",
        "whole-answer",
    }


# --- the guide --------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The guide's files by their titles, and its package as an installer would leave it."""
    found = re.findall(
        r'^```\w+ title="([^"]+)"\n(.*?)^```', GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    files = dict(found)
    for name in ("evalctl_parrot.py", "test_parrot.py"):
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    points = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
    info = tmp_path / "evalctl_parrot-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evalctl-parrot\nVersion: 1.0.0\n")
    lines = [
        line for group, each in points.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in each.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_parrots()  # another test's package may be called the same
    yield files
    forget_parrots()


def forget_parrots() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("evalctl_parrot", "test_parrot")]:
        del sys.modules[name]


async def test_package_of_the_guide_is_found_by_its_entry_point_and_keeps_the_contract(
    installed: dict[str, str],
) -> None:
    assert "parrot" in list_provider_names()
    provider = find_provider("parrot")(ProviderOptions(model="m", api_key=TEST_CREDENTIAL))
    assert (provider.name, provider.account.partition("#")[0]) == ("parrot", "http://127.0.0.1:8642")
    await provider.aclose()
    await import_module("test_parrot").violations()


def test_guide_names_every_rule_and_every_quirk() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    kit = (Path(__file__).parents[2] / "providers" / "contract.py").read_text(encoding="utf-8")
    for rule in {*re.findall(r'rule="([a-z-]+)"', kit)}:
        assert f"`{rule}`" in guide, rule
    for kind, _ in WIRES.values():
        for field in attrs.fields(type(kind(base_url="http://h", api_key=TEST_CREDENTIAL, pool=HttpPool()).quirks)):
            assert f"| `{kind.format_name}` | `{field.name}` |" in guide, field.name
