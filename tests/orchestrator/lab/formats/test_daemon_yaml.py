from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.lab.formats.daemon_yaml import read_daemon
from providers.decisions.model import Backend, DaemonConfig, ExecNode, HttpNode, ModelNode, RuleNode
from store.errors import UsageError
from tests.orchestrator.lab.formats.labs import CONFIG, changed, marked

FLOW = "capabilities:\n  c:\n    input_schema: {}\n    flow:\n"
PATH = "/usr/bin:/bin"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., DaemonConfig]:
    def reading(text: str, path: str | None = None) -> DaemonConfig:
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return read_daemon(file, path=path)

    return reading


@pytest.fixture
def refused(read: Callable[..., DaemonConfig], tmp_path: Path) -> Callable[..., str]:
    def refusal(text: str, path: str | None = None) -> str:
        with pytest.raises(UsageError) as caught:
            read(text, path)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return refusal


def flow(*nodes: str) -> str:
    return FLOW + "".join(f"      - {node}\n" for node in nodes)


def asks(name: str, **more: Any) -> str:
    fields = ", ".join(f"{key}: {value}" for key, value in more.items())
    return f"{{ id: {name}, kind: exec, command: [x]{', ' if fields else ''}{fields} }}"


def rule(name: str, when: str = "input.a") -> str:
    return f'{{ id: {name}, kind: rule, when: "{when}", decision: 1 }}'


def test_a_configuration_is_read_into_backends_and_flows(read: Callable[..., DaemonConfig]) -> None:
    daemon = read(CONFIG)
    toolgate = daemon.capabilities["toolgate"]
    assert daemon.backends == {
        "house": Backend(name="house", kind="openai", base_url="http://127.0.0.1:8080/v1", api_key_env="HOUSE_KEY"),
        "typesafe": Backend(name="typesafe", kind="typesafe"),
    }
    assert [type(node) for node in toolgate.flow] == [RuleNode, ModelNode, ExecNode, HttpNode, ModelNode, RuleNode]
    assert toolgate.flow[0] == RuleNode(id="guard", when="input.tool_name == 'rm'", decision={"verdict": "deny"})
    gate = toolgate.flow[2]
    assert isinstance(gate, ExecNode)
    assert (gate.command, gate.timeout_ms, gate.provider, gate.fallback, gate.decides) == (
        ("python3", "gate.py"),
        2000,
        "gatekeeper",
        "judge",
        True,
    )
    assert (toolgate.name, toolgate.min_confidence, daemon.capabilities["echo"].min_confidence) == ("toolgate", 0.6, 0)


def test_a_kind_is_the_name_of_its_default_backend(read: Callable[..., DaemonConfig]) -> None:
    daemon = read(flow("{ id: a, kind: model, backend: ollama, model: m, prompt: p, answer: {} }"))
    assert daemon.backends == {"ollama": Backend(name="ollama", kind="ollama")}


def test_everything_wrong_is_told_at_once_in_the_order_of_the_file(refused: Callable[..., str]) -> None:
    text = changed(CONFIG, "kind: openai", "kind: opena")
    text = changed(text, "id: guard", "id: Guard")
    text = changed(text, "fallback: judge", "fallback: juge")
    text = changed(text, "timeout_ms: 2000", "timeout_ms: 0")
    text = changed(text, "{ type: object, required: [text] }", "{ type: objekt }")
    assert [line.split(" ")[1] for line in refused(text).splitlines()] == [
        "backends.house.kind:",
        "capabilities.toolgate.flow[0].id:",
        "capabilities.toolgate.flow[2].timeout_ms:",
        "capabilities.toolgate.flow[2].fallback:",
        "capabilities.toolgate.flow[4]:",
        "capabilities.echo.input_schema.type:",
    ]


MISTAKES = [
    (
        "kind: rule, when: \"input.tool_name == 'rm'\"",
        '‸kind: ruel, when: "x"',
        ("flow[0].kind: unknown kind 'ruel' (did you mean 'rule'?); expected one of rule, model, exec, http"),
    ),
    (
        "id: first, kind: model, backend: house",
        "id: first, kind: model, ‸backend: hous",
        (
            "flow[1].backend: there is no backend 'hous' (did you mean 'house'?); backends: anthropic, house, ollama, "
            "openai, openai-responses, scripted, typesafe"
        ),
    ),
    ("id: vendor", "‸id: guard", "flow[3].id: duplicate node id 'guard'; the first is flow[0]"),
    (
        "id: guard",
        "‸id: Guard_1",
        "flow[0].id: expected lower-case letters, digits and '-', at most 100 characters; got 'Guard_1'",
    ),
    (
        "fallback: judge",
        "‸fallback: jugde",
        (
            "flow[2].fallback: there is no node 'jugde' (did you mean 'judge'?); nodes: guard, first, gate, vendor, "
            "judge, careful"
        ),
    ),
    ("fallback: judge", "‸fallback: gate", "flow[2].fallback: a node cannot be its own fallback"),
    (
        "fallback: vendor",
        "‸fallback: gate",
        "flow[4].fallback: fallbacks form a cycle: gate -> judge -> gate",
    ),
    (
        "decides: false",
        "‸decides: no",
        "flow[1].decides: expected true or false, got 'no' (in YAML here, write true or false)",
    ),
    (
        "input.tool_name == 'rm'",
        "input.tool_name == 'rm' && ‸inptu",
        (
            "flow[0].when: undeclared reference to 'inptu' (did you mean 'input'? There are: input, answers)\n"
            "  input.tool_name == 'rm' && inptu\n"
            "                             ^"
        ),
    ),
    (
        "input.tool_name == 'rm'",
        "‸'rm'",
        ("flow[0].when: expected a boolean expression, this one is of type string\n  'rm'\n  ^"),
    ),
    ("when: \"input.tool_name == 'rm'\"", "‸when: ' '", "flow[0].when: expected some text, got ' '"),
    (
        "'rm'\", decision: { verdict: deny }",
        "'rm'\", decision: { ‸verdict: dent }",
        'flow[0].decision.verdict: "dent" is not one of "allow" or "deny" (output_schema.properties.verdict.enum)',
    ),
    (
        "tool_name: { type: string }",
        "tool_name: { ‸type: strng }",
        (
            'input_schema.properties.tool_name.type: invalid JSON Schema: "strng" is not a type '
            "(array, boolean, integer, null, number, object, string)"
        ),
    ),
    (
        "answer: {}",
        "‸answer: { $ref: 'https://example.com/s.json' }",
        (
            "flow[1].answer: invalid JSON Schema: a $ref must stay within its schema, nothing is fetched: "
            "'https://example.com/s.json'"
        ),
    ),
    ('"{{ input }}"', '"say ‸{{ inptu.x }}"', "flow[1].prompt: expected input or answers, got 'inptu'"),
    ("Tool: {{ input.tool_name }}", "Tool: ‸{{ input.tool_name", "flow[4].prompt: `{{` without `}}`"),
    (
        'system: "{{ answers.first.kind }}"',
        '‸system: "{{ answers.frist.kind }}"',
        "flow[4].system: answers.frist: there is no node 'frist' (did you mean 'first'?)",
    ),
    (
        'system: "{{ answers.first.kind }}"',
        '‸system: "{{ answers.gate.kind }}"',
        "flow[4].system: answers.gate: only nodes with 'decides: false' leave an answer for later nodes",
    ),
    ("timeout_ms: 2000", "‸timeout_ms: 600001", "flow[2].timeout_ms: expected 1 to 600000, got 600001"),
    ("min_confidence: 0.6", "‸min_confidence: 60", "min_confidence: expected 0 to 1, got 60"),
    ("min_confidence: 0.6", "‸min_confidence: high", "min_confidence: expected a number, got 'high'"),
    (
        "command: [python3, gate.py]",
        "‸command: []",
        "flow[2].command: expected a program and its arguments, got an empty array",
    ),
    (
        "command: [python3, gate.py]",
        "‸command: python3 gate.py",
        "flow[2].command: expected an array, got 'python3 gate.py'",
    ),
    ("[python3, gate.py]", "[‸../gate.py]", "flow[2].command[0]: '../gate.py' must not hold .."),
    ('url: "https://vendor.example/v1"', "‸url: vendor", "flow[3].url: expected a URL such as https://host/v1"),
    (
        "api_key_env: VENDOR_KEY",
        "‸api_key_env: sk-12345",
        (
            "flow[3].api_key_env: expected the name of an environment variable (the value is not shown because it may "
            "be a key)"
        ),
    ),
    (
        "min_confidence: 0.6",
        "‸min_confidense: 0.6",
        "min_confidense: unknown field 'min_confidense' (did you mean 'min_confidence'?)",
    ),
    ("- id: judge\n        kind: model", "- ‸id: judge\n        kind: http", "flow[4]: missing required field 'url'"),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_a_mistake_in_a_capability_is_told_with_its_place_and_what_was_expected(
    refused: Callable[..., str], old: str, new: str, message: str
) -> None:
    text, place = marked(changed(CONFIG, old, new))
    assert f"config.yaml:{place}: capabilities.toolgate.{message}\n" in refused(text) + "\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "kind: openai",
            "‸kind: opena",
            (
                "backends.house.kind: unknown backend kind 'opena' (did you mean 'openai'?); "
                "expected one of anthropic, "
                "ollama, openai, openai-responses, scripted, typesafe"
            ),
        ),
        (
            "  typesafe:",
            "  ‸typesave:",
            (
                "backends.typesave: unknown backend kind 'typesave' (did you mean 'typesafe'?); expected one of "
                "anthropic, ollama, openai, openai-responses, scripted, typesafe"
            ),
        ),
        (
            'base_url: "http://127',
            '‸base_url: "http://me:hunter2@127',
            (
                "backends.house.base_url: a URL with a user or a password in it, which would be stored; put the key "
                "into a variable and name it in api_key_env"
            ),
        ),
        (
            "schema: evalctl.hub/1",
            "‸schema: evalctl.hub/2",
            "schema: expected 'evalctl.hub/1', got 'evalctl.hub/2' (did you mean 'evalctl.hub/1'?)",
        ),
        ("backends:", "‸backend:", "backend: unknown field 'backend' (did you mean 'backends'?)"),
    ],
)
def test_a_mistake_outside_of_capabilities_is_told(
    refused: Callable[..., str], old: str, new: str, message: str
) -> None:
    text, place = marked(changed(CONFIG, old, new))
    assert f"config.yaml:{place}: {message}\n" in refused(text) + "\n"


NODE = "config.yaml:5:9: capabilities.c.flow[0]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "config.yaml:1:1: (document): expected an object, got null"),
        ("[]", "config.yaml:1:1: (document): expected an object, got an array"),
        ("backends: {}", "config.yaml:1:1: (document): missing required field 'capabilities'"),
        ("capabilities: {}", "config.yaml:1:1: capabilities: expected at least one capability"),
        ("a: 1\na: 2", "config.yaml:2:1: duplicate key 'a' (first at line 1)"),
        (flow("3"), f"{NODE}: expected an object, got 3"),
        (flow("{ id: a }"), f"{NODE}: missing required field 'kind': one of rule, model, exec, http"),
        (FLOW.rstrip() + " []", "config.yaml:4:5: capabilities.c.flow: expected at least one node"),
        (flow("{ kind: [], id: 3 }"), "config.yaml:5:11: capabilities.c.flow[0].kind: unknown kind an array; expected"),
    ],
)
def test_what_is_no_configuration_is_told(refused: Callable[..., str], text: str, message: str) -> None:
    assert refused(text).splitlines()[0].startswith(message)


@pytest.mark.parametrize(
    "nodes",
    [
        [rule("a"), rule("b")],
        [rule("a"), asks("b")],
        [asks("a", decides="false"), rule("b", "true")],
        [asks("a", fallback="c"), asks("b"), rule("c")],
        [asks("a", fallback="c"), asks("b", fallback="c"), rule("c")],
        [asks("a", fallback="c"), asks("b"), asks("c", decides="false")],
    ],
)
def test_a_flow_may_go_on_after_a_rule_and_after_what_does_not_decide(
    read: Callable[..., DaemonConfig], nodes: list[str]
) -> None:
    assert read(flow(*nodes))


@pytest.mark.parametrize(
    ("nodes", "unreached", "end"),
    [
        ([asks("a"), rule("b")], 1, "a"),
        ([rule("a", "true"), rule("b")], 1, "a"),
        ([rule("x"), asks("a", fallback="b"), asks("b"), rule("c")], 3, "a"),
        ([asks("a", fallback="b"), rule("b", " true "), rule("c")], 2, "a"),
    ],
)
def test_a_node_that_nothing_leads_to_is_told(
    refused: Callable[..., str], nodes: list[str], unreached: int, end: str
) -> None:
    name = nodes[unreached].split(",")[0].removeprefix("{ id: ")
    assert refused(flow(*nodes)) == (
        f"config.yaml:{5 + unreached}:9: capabilities.c.flow[{unreached}]: node '{name}' is never reached: the flow "
        f"always ends with '{end}' before it; make it a fallback or put it first"
    )


def test_each_circle_is_told_once(refused: Callable[..., str]) -> None:
    nodes = [asks("a", fallback="b"), asks("b", fallback="c"), asks("c", fallback="b"), asks("d", fallback="d")]
    assert refused(flow(*nodes)).splitlines() == [
        "config.yaml:7:44: capabilities.c.flow[2].fallback: fallbacks form a cycle: b -> c -> b",
        (
            "config.yaml:8:9: capabilities.c.flow[3]: node 'd' is never reached: the flow always ends with 'a' before "
            "it; make it a fallback or put it first"
        ),
        "config.yaml:8:44: capabilities.c.flow[3].fallback: a node cannot be its own fallback",
    ]


def test_a_question_that_typesafe_has_no_form_for_is_told(refused: Callable[..., str]) -> None:
    model = "{ id: a, kind: model, backend: typesafe, model: m, prompt: p, answer: %s }"
    free = "{ type: object, required: [why], properties: { why: { type: string } } }"
    assert refused(flow(model % free)).startswith(
        "config.yaml:5:71: capabilities.c.flow[0].answer: a typesafe backend cannot answer it: why"
    )


def test_programs_are_looked_for_only_where_a_path_is_given(
    read: Callable[..., DaemonConfig], refused: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "gate.sh").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "out").symlink_to("/bin")

    def problem(program: str, path: str | None = PATH) -> str:
        text = flow(f"{{ id: a, kind: exec, command: ['{program}'] }}")
        return refused(text, path).removeprefix("config.yaml:5:40: capabilities.c.flow[0].command[0]: ")

    for program in ("sh", "./run.sh", "/bin/sh"):
        assert read(flow(f"{{ id: a, kind: exec, command: [{program}] }}"), PATH)
    assert read(flow(asks("a")), None)
    assert problem("no-such-thing") == "there is no program 'no-such-thing' on the PATH"
    assert problem("sh", str(tmp_path / "bin")) == "there is no program 'sh' on the PATH"
    assert problem("sub/gate.sh") == f"there is no file 'sub/gate.sh' in {tmp_path}"
    assert problem("/no/such") == "there is no file '/no/such'"
    assert problem("./gate.sh") == "'./gate.sh' is not executable"
    assert problem("a/../run.sh", None) == "'a/../run.sh' must not hold .."
    assert problem("out/sh", None) == "'out/sh' leads outside through a symbolic link"
    assert problem("") == "expected a program, got ''"


def test_programs_are_relative_to_where_a_linked_configuration_really_lies(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "config.yaml").write_text(flow("{ id: a, kind: exec, command: [./run.sh] }"), encoding="utf-8")
    (tmp_path / "real" / "run.sh").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "real" / "run.sh").chmod(0o755)
    (tmp_path / "link.yaml").symlink_to("real/config.yaml")
    assert read_daemon(tmp_path / "link.yaml", path=PATH)


def test_two_things_wrong_with_one_value_are_both_told(refused: Callable[..., str]) -> None:
    lines = refused(flow(asks("a"), "{ id: b, kind: exec }")).splitlines()
    assert [line.partition(": capabilities.c.flow[1]: ")[2].partition(":")[0] for line in lines] == [
        "missing required field 'command'",
        "node 'b' is never reached",
    ]
