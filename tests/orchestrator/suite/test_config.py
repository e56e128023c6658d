import json
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.credentials import resolve_key
from orchestrator.measured import MEASURED, config_hash, measured_document
from orchestrator.suite.config import Config, find_project_file, load_config, with_agent, with_flags, with_values
from providers.base import AgentSettings
from store.errors import UsageError

SECRET = "sk-live-51Habcdefghijklmnop"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work" / "deep").mkdir(parents=True)
    return tmp_path


def write(file: Path, **document: Any) -> Path:
    file.write_text(json.dumps({"schemaVersion": 1, **document}))
    return file


def load(home: Path, *, explicit: Path | None = None, trust: bool = False) -> Config:
    return load_config({"EVALCTL_CONFIG_HOME": str(home / "home")}, home / "work" / "deep", explicit, trust)


def refusal(home: Path, **how: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load(home, **how)
    return str(caught.value)


def test_without_files_everything_is_a_default(home: Path) -> None:
    assert load(home) == Config(agent=AgentSettings())


def test_the_project_wins_over_the_user_key_by_key(home: Path) -> None:
    user = write(home / "home" / "config.json", limits={"maxTurns": 10, "firstTokenRetries": 0}, model="user-model")
    project = write(home / "work" / "evalctl.json", limits={"maxTurns": 20}, compaction={"threshold": 0.6})
    config = load(home)
    assert (config.agent.max_turns, config.agent.first_token_retries, config.agent.compaction_threshold) == (20, 0, 0.6)
    assert config.model == "user-model"
    assert config.origins == {
        "limits.maxTurns": str(project),
        "limits.firstTokenRetries": str(user),
        "model": str(user),
        "compaction.threshold": str(project),
    }


def test_flags_win_over_files(home: Path) -> None:
    write(home / "work" / "evalctl.json", reasoningEffort="low")
    config = with_values(load(home), {"reasoningEffort": "high", "provider": "openai"}, "command line")
    assert (config.agent.reasoning_effort, config.provider) == ("high", "openai")
    assert config.origins == {"reasoningEffort": "command line", "provider": "command line"}


def test_the_nearest_project_file_counts(home: Path) -> None:
    write(home / "work" / "evalctl.json", limits={"maxTurns": 1})
    near = write(home / "work" / "deep" / "evalctl.json", limits={"maxTurns": 2})
    assert find_project_file(home / "work" / "deep") == near
    assert load(home).agent.max_turns == 2


def test_an_explicit_file_takes_the_projects_place_and_is_trusted(home: Path) -> None:
    write(home / "work" / "evalctl.json", limits={"maxTurns": 20}, reasoningEffort="low")
    explicit = write(home / "other.json", provider="openai", baseUrl="http://localhost:1/v1", apiKeyEnv="MY_KEY")
    config = load(home, explicit=explicit)
    assert (config.provider, config.base_url, config.api_key_env) == ("openai", "http://localhost:1/v1", "MY_KEY")
    assert config.agent == AgentSettings()
    assert "no such file" in refusal(home, explicit=home / "missing.json")


@pytest.mark.parametrize(("key", "value"), [("provider", "x"), ("baseUrl", "https://evil.example"), ("apiKeyEnv", "K")])
def test_a_project_may_not_decide_where_a_key_is_sent(home: Path, key: str, value: str) -> None:
    file = write(home / "work" / "evalctl.json", **{key: value})
    told = refusal(home)
    assert told.startswith(f"{file}:1:22: {key}: ")
    assert "--trust-project" in told
    assert load(home, trust=True).origins == {key: str(file)}
    file.unlink()
    write(home / "home" / "config.json", **{key: value})
    assert key in load(home).origins


def test_a_project_may_not_open_the_users_network_to_a_model(home: Path) -> None:
    file = write(home / "work" / "evalctl.json", fetch={"allowPrivate": True})
    assert "fetch.allowPrivate: a project's file may set this only with --trust-project" in refusal(home)
    assert load(home, trust=True).fetch_private is True
    file.unlink()
    write(home / "home" / "config.json", fetch={"allowPrivate": True}, contextWindow=8192)
    config = load(home)
    assert (config.fetch_private, config.context_window) == (True, 8192)
    assert config_hash(config.agent) == config_hash(AgentSettings())


def test_flags_are_laid_over_files_and_what_does_not_fit_is_told_at_once(home: Path) -> None:
    write(home / "home" / "config.json", model="m", provider="openai")
    config = with_flags(load(home), {"--model": ("model", "n"), "--provider": ("provider", None)})
    assert (config.model, config.provider, config.origins["model"]) == ("n", "openai", "--model")
    assert config.origins["provider"] == str(home / "home" / "config.json")
    with pytest.raises(UsageError) as caught:
        with_flags(config, {"--model": ("model", " "), "--base-url": ("baseUrl", f"https://h/?key={SECRET}")})
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == ["--model", "--base-url"]
    assert SECRET not in str(caught.value)
    azure = "https://host/openai?api-version=2026-01-01"
    assert with_flags(config, {"--base-url": ("baseUrl", azure)}).base_url == azure


def test_a_project_may_name_its_model(home: Path) -> None:
    write(home / "work" / "evalctl.json", model="m")
    assert load(home).model == "m"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"limits": {"maxTurns": 101}}, "limits.maxTurns: expected an integer from 1 to 100, got 101"),
        ({"limits": {"maxTurns": True}}, "limits.maxTurns: expected an integer from 1 to 100, got true"),
        ({"limits": {"maxOutputTokens": 0}}, "expected an integer from 1 to 1,000,000, or null, got 0"),
        ({"limits": {"firstTokenRetries": 4}}, "expected an integer from 0 to 3, got 4"),
        ({"limits": {"truncationRecoveries": 6}}, "expected an integer from 0 to 5, got 6"),
        ({"limits": {"maxTurn": 1}}, "limits.maxTurn: unknown field 'maxTurn' (did you mean 'maxTurns'?)"),
        ({"limits": 1}, "limits: expected an object, got 1"),
        ({"compaction": {"threshold": 1}}, "compaction.threshold: expected a number from 0.1 to 0.99, got 1"),
        ({"compaction": {"keepTurns": 21}}, "expected an integer from 0 to 20, got 21"),
        ({"compaction": {"auto": "no"}}, "compaction.auto: expected true or false, got 'no'"),
        ({"reasoningEffort": 3}, "reasoningEffort: expected a word such as low, medium or high, or null, got 3"),
        ({"nativeTools": [1]}, "nativeTools: expected an array of objects, got an array"),
        ({"agents": {"definitions": {"a": {}}}}, "agents.definitions.a: missing required field 'instructions'"),
        (
            {"agents": {"definitions": {"a": {"instructions": "x", "b": 1}}}},
            "agents.definitions.a.b: unknown field 'b'",
        ),
        ({"modle": "m"}, "modle: unknown field 'modle' (did you mean 'model'?)"),
        ({"limits.maxTurns": 3}, "unknown field 'limits.maxTurns'"),
        ({"schemaVersion": 2}, "schemaVersion: expected 1, got 2"),
        ({"apiKey": SECRET}, "apiKey: unknown field 'apiKey' (did you mean 'apiKeyEnv'?)"),
        ({"apiKeyEnv": SECRET}, "apiKeyEnv: expected the name of an environment variable"),
        ({"baseUrl": f"https://user:{SECRET}@host/v1"}, "baseUrl: the base URL contains a user name or a password"),
        ({"contextWindow": 0}, "contextWindow: expected an integer from 1 to 100,000,000, or null, got 0"),
        ({"fetch": {"allowPrivate": 1}}, "fetch.allowPrivate: expected true or false, got 1"),
        (
            {"fetch": {"allowPrivat": True}},
            "fetch.allowPrivat: unknown field 'allowPrivat' (did you mean 'allowPrivate'?)",
        ),
        ({"baseUrl": "ftp://host"}, "baseUrl: expected a URL such as https://host/v1"),
        ({"baseUrl": "http://[::1"}, "baseUrl: expected a URL such as https://host/v1"),
        (
            {"baseUrl": f"https://host/?key={SECRET}"},
            "baseUrl: the URL's query may contain only api-version",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place_and_never_a_secret(
    home: Path, document: dict[str, Any], told: str
) -> None:
    write(home / "work" / "evalctl.json", **document)
    message = refusal(home, trust=True)
    assert message.startswith(f"{home / 'work' / 'evalctl.json'}:1:")
    assert told in message
    assert SECRET not in message


def test_all_findings_of_a_file_are_told_at_once(home: Path) -> None:
    write(home / "work" / "evalctl.json", limits={"maxTurns": 0, "x": 1}, provider="p", nativeTools=1)
    assert len(refusal(home).splitlines()) == 4


def test_a_file_that_is_no_object_or_no_json_is_told(home: Path) -> None:
    (home / "work" / "evalctl.json").write_text("[]")
    assert "expected an object, got an array" in refusal(home)
    (home / "work" / "evalctl.json").write_text('{"schemaVersion": 1,}')
    assert "1:20: trailing comma" in refusal(home)


def test_the_user_file_follows_the_xdg_rules(tmp_path: Path) -> None:
    write_to = tmp_path / "xdg" / "evalctl"
    write_to.mkdir(parents=True)
    write(write_to / "config.json", model="xdg")
    (tmp_path / ".config" / "evalctl").mkdir(parents=True)
    write(tmp_path / ".config" / "evalctl" / "config.json", model="home")
    here = tmp_path / "here"
    here.mkdir()
    assert load_config({"XDG_CONFIG_HOME": str(tmp_path / "xdg")}, here, None, False).model == "xdg"
    assert load_config({"HOME": str(tmp_path)}, here, None, False).model == "home"
    assert load_config({"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}, here, None, False).model == "home"
    assert load_config({}, here, None, False).model is None


# --- agents -----------------------------------------------------------------------------------------------------


def test_the_active_agent_brings_its_instructions_from_any_layer(home: Path) -> None:
    write(home / "home" / "config.json", agents={"definitions": {"reviewer": {"instructions": "Review."}}})
    write(home / "work" / "evalctl.json", agents={"active": "reviewer"})
    config = load(home)
    assert (config.agent.agent, config.agent.instructions) == ("reviewer", "Review.")
    back = with_agent(config.agent, "build", config.definitions, where="agent")
    assert (back.agent, back.instructions) == ("build", None)


def test_an_agent_that_nobody_defined_is_refused_with_the_nearest(home: Path) -> None:
    file = write(home / "work" / "evalctl.json", agents={"active": "biuld"})
    assert refusal(home) == f"{file}: agents.active: no agent called 'biuld' (did you mean 'build'?); defined: build"


# --- the hash ---------------------------------------------------------------------------------------------------

CHANGED = {
    "limits.maxTurns": 7,
    "limits.maxOutputTokens": 7,
    "limits.maxContextChars": 7000,
    "limits.truncationRecoveries": 1,
    "limits.firstTokenTimeoutMs": 7,
    "limits.firstTokenRetries": 2,
    "compaction.auto": False,
    "compaction.threshold": 0.5,
    "compaction.keepTurns": 7,
    "compaction.maxOutputTokens": 7,
    "reasoningEffort": "high",
    "nativeTools": [{"type": "web_search"}],
}


@pytest.mark.parametrize("name", [name for name in MEASURED if name != "agents.active"])
def test_every_measured_key_changes_the_hash(name: str) -> None:
    plain = Config()
    assert config_hash(with_values(plain, {name: CHANGED[name]}, "x").agent) != config_hash(plain.agent)


def test_the_active_agent_and_its_definition_change_the_hash() -> None:
    plain, other = AgentSettings(), AgentSettings(agent="reviewer", instructions="a")
    assert len({config_hash(one) for one in (plain, other, attrs.evolve(other, instructions="b"))}) == 3


def test_who_is_asked_does_not_change_the_hash() -> None:
    asked = {"provider": "openai", "model": "m", "baseUrl": "http://h", "apiKeyEnv": "K"}
    assert config_hash(with_values(Config(), asked, "x").agent) == config_hash(Config().agent)


def test_the_hash_is_pinned_because_stored_rows_hold_it() -> None:
    assert config_hash(AgentSettings()) == "ef33d677031198dab3797105b6a17581fe02d52eebf04f1fcd667ed5eddceadb"


def test_every_setting_is_measured() -> None:
    fields = {field.name for field in attrs.fields(AgentSettings)}
    assert fields == {key.field for key in MEASURED.values()} | {"instructions"}
    assert set(measured_document(AgentSettings())) == {*MEASURED, "agents.definition"}


def test_overrides_are_refused_all_at_once_with_suggestions() -> None:
    with pytest.raises(UsageError) as caught:
        with_values(Config(), {"compaction.treshold": 0.6, "limits.maxTurns": "3", "plugins": []}, "early")
    assert str(caught.value).splitlines() == [
        "early: compaction.treshold: unknown key (did you mean 'compaction.threshold'?)",
        "early: limits.maxTurns: expected an integer from 1 to 100, got '3'",
        "early: plugins: unknown key",
    ]


# --- keys -------------------------------------------------------------------------------------------------------


def test_a_named_variable_is_used() -> None:
    assert resolve_key("MY_KEY", "openai", {"MY_KEY": SECRET, "OPENAI_API_KEY": "other"}) == ("MY_KEY", SECRET)


def test_the_usual_variable_is_used_if_it_is_set_and_else_no_key_is_sent() -> None:
    assert resolve_key(None, "openai", {"OPENAI_API_KEY": SECRET}) == ("OPENAI_API_KEY", SECRET)
    assert resolve_key(None, "openai", {"OPENAI_API_KEY": ""}) == (None, None)
    assert resolve_key(None, "openai", {}) == (None, None)
    assert resolve_key(None, "scripted", {"OPENAI_API_KEY": SECRET}) == (None, None)


@pytest.mark.parametrize("environment", [{}, {"MY_KEY": ""}])
def test_a_named_variable_that_is_unset_is_an_error_that_names_it(environment: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the environment variable MY_KEY is not set"):
        resolve_key("MY_KEY", "openai", environment)


@pytest.mark.parametrize("key", [SECRET, "abcdefghijklmnopqrstuvwxyz0123456789ABCD", "sk_live_51Habcdefghijklmnop"])
def test_a_key_in_the_place_of_its_variables_name_is_never_shown(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_key(key, "openai", {})
    assert key not in str(caught.value)


# --- the document -----------------------------------------------------------------------------------------------

DOCUMENT = (Path(__file__).parent.parent.parent.parent / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_the_document_names_every_measured_key_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+) \| [^|]*\|$", DOCUMENT, re.MULTILINE))
    assert {name: json.loads(default) for name, default in rows.items()} == {
        name: value for name, value in measured_document(AgentSettings()).items() if name in MEASURED
    }


def test_the_documented_file_is_a_configuration(home: Path) -> None:
    (text,) = re.findall(r"```json[^\n]*\n(.*?)```", DOCUMENT, re.DOTALL)
    (home / "work" / "evalctl.json").write_text(text)
    config = load(home)
    assert (config.model, config.agent.max_turns, config.agent.agent) == ("some-model", 40, "careful")
