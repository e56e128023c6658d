"""`run --print-config`: everything that would hold, where it comes from, and nothing done."""

import json
from typing import Any

from tests.e2e.conftest import MakeSuite, tiny
from tests.peers.driver import Driver

SECRET = "sk-print-config-0123456789"


def settings(document: Any) -> dict[str, Any]:
    return {setting["key"]: setting for setting in document["settings"]}


def write(path: Any, **document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 1, **document}), encoding="utf-8")


def test_every_setting_is_told_with_its_origin_and_nothing_runs(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite({"one": "x"}, agent="careful")
    user = evalctl.home / "config" / "config.json"
    write(user, provider="openai", apiKeyEnv="MY_KEY", model="users", limits={"maxTurns": 30})
    project = evalctl.home / "evalctl.json"
    write(
        project,
        model="projects",
        compaction={"threshold": 0.6},
        agents={"definitions": {"careful": {"instructions": "i"}}},
    )
    evalctl.environment["MY_KEY"] = SECRET

    flags = ("--model", "flags", "--k", "7", "--allow-write", "--max-calls", "9", "--print-config")
    done = evalctl.run("--json", "run", "tiny", "--suite-dir", suite, *flags)
    assert done.code == 0, done.stderr
    document = done.json
    assert document["schema"] == "evalctl.config/1"
    found = settings(document)
    told = {key: (found[key]["value"], found[key]["origin"], found[key]["measured"]) for key in found}
    assert told["limits.maxTurns"] == (30, str(user), True)
    assert told["compaction.threshold"] == (0.6, str(project), True)
    assert told["compaction.auto"] == (True, "default", True)
    assert told["provider"] == ("openai", str(user), False)
    assert told["model"] == ("flags", "--model", False)
    assert told["k"] == (7, "flag", False)
    assert told["seed"] == (0, "default", False)
    assert told["concurrency"] == (4, "default", False)
    assert told["max-stall"] == (600.0, "default", False)
    assert told["max-calls"] == (9, "flag", False)
    assert told["store"] == (str(evalctl.store), "EVALCTL_STORE", False)
    assert told["fetch.allowPrivate"] == (False, "default", False)
    assert document["credential"] == {"variable": "MY_KEY", "set": True, "origin": str(user)}
    (own,) = document["taskAgents"]
    assert (own["task"], own["agent"]) == ("one", "careful")
    assert own["configHash"] != document["configHash"]
    granted = {tool["name"]: tool["granted"] for tool in document["tools"]}
    assert (granted["read_file"], granted["write_file"], granted["bash"], granted["fetch_url"]) == (
        True,
        True,
        False,
        False,
    )
    assert {"bash.defaultTimeoutMs", "fetch_url.timeoutMs", "search_text.processorMs"} <= document["limits"].keys()
    assert not evalctl.store.exists()
    assert SECRET not in done.stdout + done.stderr


def test_the_hash_that_is_printed_is_the_hash_of_the_report(evalctl: Driver, make_suite: MakeSuite) -> None:
    script = {"format": "evalctl.script/1", "plays": [{"answers": [{"text": "x"}]}]}
    suite = make_suite({"one": "x"}, scripts={"one": script})
    write(evalctl.home / "evalctl.json", limits={"maxTurns": 12})
    flags = tiny(suite, "--k", "1")

    printed = evalctl.run("--json", *flags, "--print-config").json["configHash"]
    assert evalctl.run("--json", *flags).json["conditions"]["configHash"] == printed


def test_people_get_a_table_and_need_no_suite_and_no_provider(evalctl: Driver) -> None:
    done = evalctl.run("run", "--print-config", "--provider", "openai", "--api-key-env", "NO_SUCH_KEY")
    assert done.code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["*", "compaction.threshold", "0.85", "default"] in lines
    assert ["provider", "openai", "--provider"] in lines
    assert "credential: in the variable NO_SUCH_KEY (--api-key-env), which is not set" in done.stdout
    assert evalctl.run("run", "--print-config").code == 0
    scripted = settings(evalctl.run("--json", "run", "--print-config", "--provider", "scripted").json)
    assert (scripted["model"]["value"], scripted["model"]["origin"]) == ("scripted", "default")


def test_without_it_a_suite_is_needed(evalctl: Driver) -> None:
    done = evalctl.run("run", "--provider", "scripted")
    assert done.code == 1
    assert "SUITE" in done.stderr


def test_what_does_not_fit_is_told_there_too(evalctl: Driver) -> None:
    done = evalctl.run("run", "--print-config", "--base-url", f"http://me:{SECRET}@host/")
    assert done.code == 1
    assert "--base-url" in done.stderr
    assert SECRET not in done.stderr
