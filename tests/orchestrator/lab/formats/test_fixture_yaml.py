import os
from pathlib import Path

import pytest

from orchestrator.lab.catalog import find_lab
from orchestrator.lab.formats.lab_yaml import check_lab, read_lab
from orchestrator.lab.model import Expectation
from tests.orchestrator.lab.formats.labs import CONFIG, FIXTURE, changed, marked, write_lab

FILE = "fixtures/toolgate/rm-root.yaml"
HOW = "expected fixtures/CAPABILITY/ID.yaml"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return write_lab(tmp_path / "lab")


def findings(root: Path) -> list[str]:
    return [finding.replace(f"{root}/", "") for finding in check_lab(find_lab(root, None)).findings]


def put(root: Path, path: str, text: str = FIXTURE) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def test_a_fixture_is_read_and_its_replay_named_by_nodes(lab: Path) -> None:
    (fixture,) = read_lab(find_lab(lab, None)).cases
    assert (fixture.case_id, fixture.version, fixture.description) == ("toolgate/rm-root", 2, "Deleting the root")
    assert fixture.input == {"tool_name": "rm"}
    assert fixture.replay == {
        "judge": {"answer": {"verdict": "deny"}, "confidence": 0.9},
        "gate": {"anything": [1]},
    }
    assert fixture.expect[1] == Expectation(cel="decision.verdict == 'deny'", why="Nobody deletes the root")
    assert fixture.modes == ("offline", "live")


def test_fixtures_come_sorted_by_capability_and_id(lab: Path) -> None:
    for name in ("b", "a"):
        put(
            lab,
            f"fixtures/echo/{name}.yaml",
            f"id: {name}\nversion: 1\ninput: {{ text: x }}\nexpect: [{{ cel: 'true', why: x }}]",
        )
    assert [fixture.case_id for fixture in read_lab(find_lab(lab, None)).cases] == [
        "echo/a",
        "echo/b",
        "toolgate/rm-root",
    ]


def test_a_backend_s_name_answers_all_of_its_nodes_but_those_answered_by_id(lab: Path) -> None:
    put(lab, FILE, changed(FIXTURE, "  judge: {", "  house: { answer: null }\n  judge: {"))
    (fixture,) = read_lab(find_lab(lab, None)).cases
    assert fixture.replay["first"] == {"answer": None}
    assert fixture.replay["judge"]["confidence"] == 0.9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: rm-root", "‸id: rm-roof", "id: expected 'rm-root', the name of the file, got 'rm-roof'"),
        (
            "id: rm-root",
            "‸id: Rm Root",
            "id: expected lower-case letters, digits and '-', at most 100 characters; got 'Rm Root'",
        ),
        ("version: 2", "‸version: 0", "version: expected at least 1, got 0"),
        ("version: 2", f"‸version: {'9' * 400}", f"version: expected 1 to 9007199254740991, got {'9' * 57}..."),
        ("version: 2", "‸version: true", "version: expected an integer, got true"),
        ("version: 2", "‸verison: 2", "verison: unknown field 'verison' (did you mean 'version'?)"),
        (
            "{ tool_name: rm }",
            "{ ‸tool_name: 3 }",
            'input.tool_name: 3 is not of type "string" (toolgate.input_schema.properties.tool_name.type)',
        ),
        (
            "input: { tool_name: rm }",
            "‸input: {}",
            'input: "tool_name" is a required property (toolgate.input_schema.required)',
        ),
        (
            "tool_name: rm }",
            "tool_name: rm, ‸sure: yes }",
            (
                'input.sure: "yes" is not of type "boolean" (in YAML here, write true or false) '
                "(toolgate.input_schema.properties.sure.type)"
            ),
        ),
        (
            "input: { tool_name: rm }",
            "‸input: { tool_name: rm, text: x, n: 9007199254740993 }",
            "input: cannot be written as canonical JSON: 9007199254740993 exceeds safe integer domain for JSON floats",
        ),
        (
            "  judge:",
            "  ‸jugde:",
            (
                "replay.jugde: there is no node 'jugde' (did you mean 'judge'?); nodes that make calls: first, "
                "gate, judge, vendor"
            ),
        ),
        ("  gatekeeper:", "  ‸guard:", "replay.guard: 'guard' is a rule, which needs no answer"),
        (
            "judge: { answer: { verdict: deny }, confidence: 0.9 }",
            "‸judge: { verdict: deny }",
            (
                "replay.judge: expected {answer, confidence}, the form of a model node's answer, "
                "got an object without 'answer'"
            ),
        ),
        ("confidence: 0.9", "‸confidence: 1.5", "replay.judge.confidence: expected 0 to 1, got 1.5"),
        ("confidence: 0.9", "‸confidence: true", "replay.judge.confidence: expected a number from 0 to 1, got true"),
        (
            "confidence: 0.9",
            "‸confidance: 0.9",
            (
                "replay.judge.confidance: unknown field 'confidance' (did you mean 'confidence'?); "
                "the form of a model node's answer is {answer, confidence}"
            ),
        ),
        (
            "{ verdict: deny }",
            "{ ‸verdict: dent }",
            (
                'replay.judge.answer.verdict: "dent" is not one of "allow" or "deny" '
                "(judge.answer.properties.verdict.enum)"
            ),
        ),
        (
            "status != 'error'",
            "‸status",
            "expect[0].cel: expected a boolean expression, this one is of type string\n  status\n  ^",
        ),
        (
            "status != 'error'",
            "status != 'error' && ‸decison",
            (
                "expect[0].cel: undeclared reference to 'decison' (did you mean 'decision'? There "
                "are: status, decision, "
                "abstain, error, trace)\n"
                "  status != 'error' && decison\n"
                "                       ^"
            ),
        ),
        ('why: "A clear command must not break it"', "‸why: ''", "expect[0].why: expected some text, got ''"),
        ("cel: \"status != 'error'\"", "‸cel: ' '", "expect[0].cel: expected some text, got ' '"),
        (', why: "Nobody deletes the root"', "", "expect[1]: missing required field 'why'"),
        (
            "version: 2",
            "version: 2\n‸modes: []",
            "modes: expected offline, live or both; without it, a fixture runs in both",
        ),
        ("version: 2", "version: 2\n‸modes: live", "modes: expected an array, got 'live'"),
        (
            "version: 2",
            "version: 2\nmodes: [‸onlin]",
            "modes[0]: expected one of 'offline', 'live', got 'onlin' (did you mean 'offline'?)",
        ),
        ("version: 2", "version: 2\nmodes: [live, ‸live]", "modes[1]: 'live' is listed twice"),
        ("version: 2", "version: 2\n‸version: 3", "duplicate key 'version' (first at line 2)"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_was_expected(lab: Path, old: str, new: str, message: str) -> None:
    text = changed(FIXTURE, old, new)
    text, place = marked(text) if "‸" in text else (text, "11:5")
    put(lab, FILE, text)
    assert f"{FILE}:{place}: {message}" in findings(lab)


def test_assertions_are_never_none(lab: Path) -> None:
    put(lab, FILE, FIXTURE.partition("expect:")[0])
    assert findings(lab) == [f"{FILE}:1:1: (document): missing required field 'expect'"]
    put(lab, FILE, FIXTURE.partition("expect:")[0] + "expect: []")
    assert findings(lab) == [f"{FILE}:8:1: expect: expected at least one assertion"]


def test_a_fixture_in_the_wrong_folder_is_told_by_what_its_input_fits(lab: Path) -> None:
    put(lab, FILE, changed(FIXTURE, "input: { tool_name: rm }", "input: { text: hello }"))
    assert findings(lab)[0] == (
        f"{FILE}:4:1: input: \"tool_name\" is a required property (toolgate.input_schema.required); it fits 'echo': is "
        "the fixture in the wrong folder?"
    )


def test_a_folder_that_is_no_capability_is_told_once(lab: Path) -> None:
    put(lab, "fixtures/tolgate/rm-root.yaml")
    put(lab, "fixtures/tolgate/other.yaml", "[")
    assert findings(lab) == [
        "fixtures/tolgate: there is no capability 'tolgate' (did you mean 'toolgate'?); capabilities: echo, toolgate"
    ]


def test_what_is_no_fixture_among_the_fixtures_is_told(lab: Path) -> None:
    for name in (
        "fixtures/loose.yaml",
        "fixtures/toolgate/b.yml",
        "fixtures/toolgate/deep/c.yaml",
        "fixtures/toolgate/~",
    ):
        put(lab, name)
    put(lab, "fixtures/toolgate/.gitkeep", "")
    assert findings(lab) == [
        f"fixtures/loose.yaml: not in the folder of a capability; {HOW}",
        f"fixtures/toolgate/b.yml: not a fixture; {HOW}",
        f"fixtures/toolgate/deep: not a fixture; {HOW}",
        f"fixtures/toolgate/~: not a fixture; {HOW}",
    ]


def test_a_lab_without_fixtures_says_how_they_are_written(lab: Path) -> None:
    (lab / FILE).unlink()
    assert findings(lab) == [f"fixtures: no fixtures; {HOW}"]


def test_a_capability_that_is_wrong_itself_does_not_hide_what_is_wrong_with_its_fixtures(lab: Path) -> None:
    (lab / "config.yaml").write_text(changed(CONFIG, "min_confidence: 0.6", "min_confidence: 6"), encoding="utf-8")
    put(lab, FILE, changed(FIXTURE, "tool_name: rm", "tool_name: 3"))
    assert [finding.split(" ")[1] for finding in findings(lab)] == [
        "capabilities.toolgate.min_confidence:",
        "input.tool_name:",
    ]


def test_names_of_files_are_shown_and_not_obeyed(lab: Path) -> None:
    put(lab, "fixtures/toolgate/a\x1b[31m\n.txt")
    put(lab, os.fsdecode(b"fixtures/toolgate/b\xff.yaml"))
    assert findings(lab) == [
        f"fixtures/toolgate/a\\u001b[31m\\u000a.txt: not a fixture; {HOW}",
        "fixtures/toolgate/b\\udcff.yaml:1:1: id: expected 'b\\udcff', the name of the file, got 'rm-root'",
    ]


def test_what_cannot_be_listed_or_read_is_told(lab: Path) -> None:
    (lab / FILE).unlink()
    os.mkfifo(lab / FILE)
    assert findings(lab) == [f"{FILE}: not a file"]
    (lab / "fixtures").rename(lab / "elsewhere")
    (lab / "fixtures").write_text("", encoding="ascii")
    assert findings(lab) == ["fixtures: cannot be read: Not a directory"]


def test_a_bomb_is_one_finding(lab: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    put(lab, FILE, f"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{levels}")
    (finding,) = findings(lab)
    assert finding.endswith("more than 200,000 values and keys, counting each alias as a copy")


@pytest.mark.parametrize("name", [FILE, "fixtures/toolgate", "fixtures/again"])
def test_a_link_that_leads_back_to_itself_is_a_finding(lab: Path, name: str) -> None:
    place = lab / name
    if place.is_dir():
        (place / "rm-root.yaml").unlink()
        place.rmdir()
    place.unlink(missing_ok=True)
    place.symlink_to(place.name)
    (found,) = findings(lab)
    assert found.startswith(f"{name}: ")


def test_names_that_others_chose_are_told_and_not_obeyed(lab: Path) -> None:
    put(lab, "config.yaml", changed(CONFIG, "  echo:\n", '  "\\e[31mecho":\n'))
    put(lab, "fixtures/ech/one.yaml")
    told = "\n".join(findings(lab))
    assert "capabilities: \\u001b[31mecho, toolgate" in told
    assert "\x1b" not in told
