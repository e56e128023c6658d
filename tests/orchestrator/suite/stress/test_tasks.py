"""The tasks of the generated suites under lowered limits, and what their verifiers tell apart."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.suite.config import load_config
from orchestrator.suite.model import Task
from orchestrator.suite.stress.chains import RULES, Chain, make_chain, make_rules_task, write_report_line
from orchestrator.suite.stress.suites import COMMITTED_INSTANCES, LOWERED_CONTEXT_CHARS, RULES_SEED
from providers.base import Answer, Ask, Request, UserText
from providers.scripted.script import read_scripts
from providers.scripted.scripted import ScriptedProvider
from tests.orchestrator.suite.stress.playing import LONG, LOWERED, STRESSED, asking, judged, play, scripted, task_of

pytestmark = pytest.mark.anyio

INSTANCES = [f"chain-walk-rules-{number:02}" for number in range(1, COMMITTED_INSTANCES + 1)]


def chain_of(instance: str) -> Chain:
    return make_chain(RULES_SEED + int(instance[-2:]))


# --- compaction ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", STRESSED.tasks, ids=lambda task: task.id)
async def test_a_stress_task_is_compacted_under_the_lowered_limit_alone_and_can_be_solved_all_the_same(
    task: Task, tmp_path: Path
) -> None:
    roomy = await play(STRESSED, task, scripted(STRESSED), tmp_path)
    assert (roomy.not_passed, roomy.compactions, roomy.errors) == ([], 0, 0)
    tight = await play(STRESSED, task, scripted(STRESSED), tmp_path, LOWERED)
    assert (tight.not_passed, tight.errors) == ([], 0)
    assert 2 <= tight.compactions <= len(read_scripts(STRESSED.root)[task.id].plays[0].compaction)


class Forgetful:
    """A scripted model that leaves one rule out of its checkpoints, and follows it while it can still read it."""

    def __init__(self, instance: str, rule: str, tmp_path: Path) -> None:
        number = int(instance[-2:])
        task = make_rules_task(number, RULES_SEED + number)
        (self.stated,) = [
            text for name, text in zip(RULES, task.checkpoint["instructions"], strict=True) if name == rule
        ]
        script = json.loads(json.dumps(task.to_script()))
        (play_of,) = script["plays"]
        for summary in play_of["compaction"]:
            document = json.loads(summary["text"])
            document["checkpoint"]["instructions"].remove(self.stated)
            summary["text"] = json.dumps(document)
        self.knowing = self._model(instance, script, tmp_path / "knowing")
        write = play_of["answers"][-2]["toolCalls"][0]
        assert write["arguments"]["content"] == write_report_line(chain_of(instance).codes)
        write["arguments"]["content"] = write_report_line(chain_of(instance).codes, omitted=rule)
        self.unknowing = self._model(instance, script, tmp_path / "unknowing")

    def _model(self, instance: str, script: dict[str, Any], root: Path) -> Ask:
        (root / "scripts").mkdir(parents=True)
        (root / "scripts" / f"{instance}.json").write_text(json.dumps(script))
        return asking(ScriptedProvider(read_scripts(root)))

    async def __call__(self, request: Request) -> Answer:
        known = any(self.stated in message.text for message in request.messages if isinstance(message, UserText))
        return await (self.knowing if known else self.unknowing)(request)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("instance", [INSTANCES[0], INSTANCES[-1]])
async def test_a_model_that_forgets_one_rule_over_compaction_fails_exactly_its_verifier(
    instance: str, rule: str, tmp_path: Path
) -> None:
    model, task = Forgetful(instance, rule, tmp_path), task_of(STRESSED, instance)
    remembered = await play(STRESSED, task, model, tmp_path)
    assert (remembered.not_passed, remembered.compactions) == ([], 0)
    forgotten = await play(STRESSED, task, model, tmp_path, LOWERED)
    assert forgotten.compactions > 0
    assert forgotten.not_passed == [rule]


# --- verifiers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instance", INSTANCES)
async def test_each_rule_of_each_instance_is_judged_on_its_own(instance: str, tmp_path: Path) -> None:
    task = task_of(STRESSED, instance)
    for rule in RULES:
        (tmp_path / "report.txt").write_text(write_report_line(chain_of(instance).codes, omitted=rule))
        assert [name for name, verdict in (await judged(STRESSED, task, tmp_path)).items() if verdict != "pass"] == [
            rule
        ]


def replaced(whole: str, old: str, new: str) -> str:
    assert whole.count(old) >= 1
    return whole.replace(old, new, 1)


FIRST = chain_of(INSTANCES[0]).codes[0]
MISTAKES: dict[str, tuple[Callable[[str], str], list[str]]] = {
    "a code in small letters": (partial(replaced, old=FIRST.upper(), new=FIRST), ["r1-line-shape"]),
    "a blank after the tilde": (partial(replaced, old="~", new="~ "), ["r1-line-shape"]),
    "a number of one digit": (partial(replaced, old="01~", new="1~"), ["r1-line-shape"]),
    "a number twice": (partial(replaced, old="02~", new="01~"), ["r1-line-shape"]),
    "the bar of the older task": (partial(replaced, old="~", new="|"), ["r1-line-shape"]),
    "another heading": (partial(replaced, old="# walk-report", new="# Walk-Report"), ["r2-header"]),
    "a second blank line": (lambda whole: whole + "\n", ["r3-footer"]),
    "no newline": (str.rstrip, ["r3-footer"]),
    "returns": (lambda whole: whole.replace("\n", "\r\n"), ["r1-line-shape", "r2-header", "r3-footer"]),
    "a wrong code": (partial(replaced, old=FIRST.upper(), new="GREY-HEDGE-10"), ["codes"]),
    "a segment short": (
        lambda whole: "\n".join(line for line in whole.split("\n") if not line.startswith("16~")),
        ["codes", "r1-line-shape"],
    ),
    "nothing": (lambda _: "", ["codes", "r1-line-shape", "r2-header", "r3-footer"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_in_a_report_fails_what_it_is_a_mistake_of(mistake: str, tmp_path: Path) -> None:
    change, wanted = MISTAKES[mistake]
    (tmp_path / "report.txt").write_bytes(change(write_report_line(chain_of(INSTANCES[0]).codes)).encode())
    verdicts = await judged(STRESSED, task_of(STRESSED, INSTANCES[0]), tmp_path)
    assert [name for name, verdict in verdicts.items() if verdict == "fail"] == wanted
    assert "error" not in verdicts.values()


async def test_a_module_in_the_workspace_does_not_stand_in_for_pythons_own(tmp_path: Path) -> None:
    for name in ("hashlib", "re", "sitecustomize", "sys"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "report.txt").write_text("")
    verdicts = await judged(STRESSED, task_of(STRESSED, INSTANCES[0]), tmp_path)
    assert [verdicts[rule] for rule in ("codes", *RULES)] == ["fail"] * 4


async def test_the_older_rule_is_kept_and_its_known_misreading_fails(tmp_path: Path) -> None:
    task = task_of(STRESSED, "chain-walk-format-rule")
    assert "Every line of report.txt has the form NN|CODE: where" in task.prompt
    script = read_scripts(STRESSED.root)[task.id].plays[0]
    written = script.answers[-2].tool_calls[0].arguments["content"]
    misread = "".join(f"{line[:3]}CODE: {line[3:-1]}\n" for line in written.splitlines())
    assert misread.startswith("01|CODE: ")
    (tmp_path / "report.txt").write_text(misread)
    verdicts = await judged(STRESSED, task, tmp_path)
    assert verdicts == {"codes": "pass", "line-form": "fail", "scope": "pass"}


async def test_a_change_in_the_frozen_directory_is_told_apart_from_the_work(tmp_path: Path) -> None:
    task = task_of(STRESSED, "frozen-directory")
    scripts = read_scripts(STRESSED.root)
    play_of = scripts[task.id].plays[0]
    lured = play_of.answers[-2].tool_calls[0]  # writes names.txt; this one writes into the archive, too
    extra = {"path": "archive/names.txt", "content": "x", "expectedHash": None}

    async def ask(request: Request) -> Answer:
        answer = await asking(ScriptedProvider(scripts))(request)
        calls = [call for call in answer.calls if call.id == lured.id]
        more = tuple(attrs.evolve(call, id="lured", arguments=extra, raw=json.dumps(extra)) for call in calls)
        return attrs.evolve(answer, calls=(*answer.calls, *more))

    assert (await play(STRESSED, task, ask, tmp_path)).not_passed == ["frozen"]


# --- long-context -------------------------------------------------------------------------------------------------


async def test_the_wanted_part_of_the_long_output_is_cut(tmp_path: Path) -> None:
    task = task_of(LONG, "truncated-output")
    played = await play(LONG, task, scripted(LONG), tmp_path)
    assert played.not_passed == []
    whole, filtered, _ = [json.loads(output) for output in played.outputs]
    assert whole["truncated"] is True
    assert filtered["truncated"] is False
    assert whole["stdout"].count("adrift") < filtered["stdout"].count("adrift") == 5


async def test_the_long_files_do_not_fit_into_one_answer(tmp_path: Path) -> None:
    for task in LONG.tasks[:2]:
        played = await play(LONG, task, scripted(LONG), tmp_path)
        assert json.loads(played.outputs[0])["truncated"] is True


# --- the comparison -----------------------------------------------------------------------------------------------


def test_the_variants_beside_the_suite_differ_in_the_context_alone(tmp_path: Path) -> None:
    document = json.loads((STRESSED.root / "compare.json").read_text())
    assert document["suite"] == STRESSED.suite_id
    baseline, lowered = document["variants"]
    assert baseline == {"id": "baseline", "overrides": {}}
    assert lowered["overrides"] == {"limits.maxContextChars": LOWERED_CONTEXT_CHARS}
    (tmp_path / "own.json").write_text(
        json.dumps({"schemaVersion": 1, "limits": {"maxContextChars": LOWERED_CONTEXT_CHARS}})
    )
    config = load_config({"EVALCTL_CONFIG_HOME": str(tmp_path)}, tmp_path, tmp_path / "own.json", False)
    assert config.agent == LOWERED
