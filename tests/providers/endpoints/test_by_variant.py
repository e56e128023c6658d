import pytest

from providers.base import Origin, Request, UserText, quirks_of
from providers.endpoints.by_variant import ByVariant
from providers.scripted.script import Play, Script, ScriptedAnswer
from providers.scripted.scripted import Scripted

pytestmark = pytest.mark.anyio


def plays(text: str) -> tuple[Play, ...]:
    return (Play(answers=(ScriptedAnswer(text=text),)),)


def scripted(text: str, **variants: str) -> Scripted:
    apart = {name: plays(said) for name, said in variants.items()}
    return Scripted({"case": Script(format="evalctl.script/1", plays=plays(text), variants=apart)})


def request(variant: str) -> Request:
    origin = Origin(suite_id="s", case_id="case", repetition=0, variant=variant)
    return Request(origin=origin, model="m", instructions="", messages=(UserText(text="Do it."),))


async def said(provider, variant: str) -> str:
    return (await provider.answer(request(variant), lambda _: None)).text


async def test_each_variant_is_answered_by_its_own_opening_and_the_others_by_the_usual_one():
    provider = ByVariant(scripted("usual"), {"slow": scripted("slow")})
    assert [await said(provider, name) for name in ("", "fast", "slow")] == ["usual", "usual", "slow"]
    assert (provider.name, provider.account) == ("scripted", "scripted")
    assert provider.size(request("slow")) == scripted("x").size(request("slow"))
    assert quirks_of(provider) == ()
    await provider.aclose()


async def test_a_script_plays_what_it_holds_for_the_variant_and_else_its_plays():
    provider = scripted("usual", worse="worse")
    assert [await said(provider, name) for name in ("", "worse", "better")] == ["usual", "worse", "usual"]
