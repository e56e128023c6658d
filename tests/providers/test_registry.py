import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from providers.endpoints.openai import OpenAIChat
from providers.endpoints.openai import open_provider as open_openai
from providers.registry import (
    BUILT_IN_PROVIDERS,
    DEFAULT_KEY_VARIABLES,
    ENTRY_POINT_GROUP,
    ProviderOptions,
    find_provider,
    list_provider_names,
)
from store.errors import UsageError


def good(options: object) -> object:
    return options


good.api_version = 1  # type: ignore[attr-defined]


def old(options: object) -> object:
    return options


old.api_version = 0  # type: ignore[attr-defined]


def silent(options: object) -> object:
    return options


@pytest.fixture
def third_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP)
        for name, value in {
            "good": f"{__name__}:good",
            "old": f"{__name__}:old",
            "silent": f"{__name__}:silent",
            "gone": "no_such_module_at_all:open",
            "broken": f"{__name__}:missing",
        }.items()
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points.select(group=group))


@pytest.mark.parametrize("name", sorted(BUILT_IN_PROVIDERS))
def test_every_built_in_can_be_loaded(name: str) -> None:
    assert callable(find_provider(name))


def test_built_in_is_found_without_looking_at_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", None)
    assert find_provider("openai") is open_openai


def test_third_partys_provider_is_found_by_its_entry_point(third_parties: None) -> None:
    assert find_provider("good") is good


@pytest.mark.parametrize("name", ["old", "silent"])
def test_provider_of_another_version_is_refused(third_parties: None, name: str) -> None:
    with pytest.raises(UsageError, match="provider port"):
        find_provider(name)


@pytest.mark.parametrize("name", ["gone", "broken"])
def test_provider_that_fails_to_load_is_a_users_problem_and_breaks_no_other(third_parties: None, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be loaded"):
        find_provider(name)
    assert find_provider("good") is good
    assert {"gone", "broken", "good", *BUILT_IN_PROVIDERS} <= set(list_provider_names())


def test_unknown_name_lists_what_exists_and_the_nearest(third_parties: None) -> None:
    with pytest.raises(UsageError) as refused:
        find_provider("opnai")
    assert "Did you mean 'openai'?" in refused.value.hint
    assert "good" in refused.value.hint


def test_options_never_show_the_key() -> None:
    assert "hidden" not in repr(ProviderOptions(api_key="hidden", proxy="http://u:hidden@h"))


def test_openai_opens_its_own_endpoint_by_default() -> None:
    provider = open_openai(ProviderOptions(model="m"))
    assert isinstance(provider, OpenAIChat)
    assert provider.account == "https://api.openai.com/v1#nokey"


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("anthropic", "https://api.anthropic.com#nokey"),
        ("ollama", "http://127.0.0.1:11434#nokey"),
        ("openai-responses", "https://api.openai.com/v1#nokey"),
        ("typesafe", "https://api.typesafe.ai#nokey"),
    ],
)
def test_each_format_opens_its_own_endpoint_by_default_and_goes_by_its_name(name: str, account: str) -> None:
    provider = find_provider(name)(ProviderOptions(model="m"))
    assert (provider.name, provider.account) == (name, account)


def test_every_endpoint_of_our_own_has_a_usual_key_variable() -> None:
    assert set(DEFAULT_KEY_VARIABLES) == set(BUILT_IN_PROVIDERS) - {"scripted"}


def test_looking_up_and_opening_a_provider_imports_no_http_client() -> None:
    program = (
        "import sys; from providers.registry import DEFAULT_KEY_VARIABLES, ProviderOptions, find_provider; "
        "[find_provider(name)(ProviderOptions(base_url='https://h/v1')) for name in DEFAULT_KEY_VARIABLES]; "
        "print(sorted({'httpx', 'asyncio', 'anyio', 'ssl'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
