import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.lab.catalog import find_lab
from orchestrator.lab.formats.lab_yaml import check_lab, read_lab
from orchestrator.lab.model import Target
from providers.decisions.model import Backend
from providers.prices.price import Price
from store.errors import UsageError
from store.rows import Caps
from tests.orchestrator.lab.formats.labs import CONFIG, FIXTURE, LAB, changed, marked, write_lab

BACKENDS = "backends: anthropic, house, ollama, openai, openai-responses, scripted, typesafe"


@pytest.fixture
def findings(tmp_path: Path) -> Callable[..., str]:
    def found(**files: Any) -> str:
        root = write_lab(tmp_path / "lab", **files)
        return "\n".join(check_lab(find_lab(root, None)).findings).replace(f"{root}/", "")

    return found


def test_a_lab_is_read_with_its_configuration_and_fixtures(tmp_path: Path) -> None:
    root = write_lab(tmp_path / "lab")
    lab = read_lab(find_lab(root, None))
    assert (lab.id, lab.version, lab.repeat, lab.bundled) == ("small", "1.10", 3, False)
    assert (lab.root, lab.config) == (root, root / "config.yaml")
    assert lab.targets == {
        "a": Target(id="a", backend="house", model="m"),
        "b": Target(id="b", backend="ollama", model="n", local=True),
    }
    assert lab.budget == Caps(calls=20, nusd=100_000_000)
    assert lab.prices == {"m": Price(input=1_000_000_000, output=2_500_000_000, cached=100_000_000)}
    assert lab.daemon.backends["ollama"] == Backend(name="ollama", kind="ollama")
    assert list(lab.daemon.capabilities) == ["toolgate", "echo"]
    assert lab.content == {
        name: hashlib.sha256((root / name).read_bytes()).hexdigest()
        for name in ("lab.yaml", "config.yaml", "fixtures/toolgate/rm-root.yaml")
    }


def test_an_empty_lab_file_is_a_lab_without_targets(tmp_path: Path) -> None:
    lab = read_lab(find_lab(write_lab(tmp_path / "lab", lab="{}"), None))
    assert (lab.id, lab.version, lab.targets, lab.budget, lab.repeat, lab.prices) == ("lab", "1", {}, None, 1, {})


def test_another_configuration_is_read_in_place_of_the_lab_s_own(tmp_path: Path) -> None:
    root = write_lab(tmp_path / "lab", config="nonsense: [")
    other = tmp_path / "other.yml"
    other.write_text(CONFIG, encoding="utf-8")
    lab = read_lab(find_lab(root, other))
    assert lab.config == other
    assert lab.content["config.yaml"] == hashlib.sha256(other.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "backend: house",
            "‸backend: hous",
            f"targets.a.backend: there is no backend 'hous' (did you mean 'house'?); {BACKENDS}",
        ),
        (
            "  a:",
            "  ‸A_1:",
            "targets.A_1: expected lower-case letters, digits and '-', at most 100 characters; got 'A_1'",
        ),
        (
            "  a:",
            "  ‸replay:",
            "targets.replay: a target cannot have the name 'replay', which stands for fixtures' own answers",
        ),
        (
            "local: true",
            "‸local: yes",
            "targets.b.local: expected true or false, got 'yes' (in YAML here, write true or false)",
        ),
        ("max_calls: 20", f"‸max_calls: -{'9' * 300}", f"budget.max_calls: expected at least 1, got -{'9' * 56}..."),
        (
            "max_cost_usd: 0.10",
            "‸max_cost_usd: true",
            "budget.max_cost_usd: expected US dollars as a number or as text, got true",
        ),
        ("max_calls: 20", "‸max_calls: 0", "budget.max_calls: expected at least 1, got 0"),
        ("max_calls: 20", "‸max_calls: 1.5", "budget.max_calls: expected an integer, got 1.5"),
        ("max_cost_usd: 0.10", "‸max_cost_usd: -1", "budget.max_cost_usd: expected 0 to 1,000,000 US dollars, got -1"),
        (
            "max_cost_usd: 0.10",
            "‸max_cost_usd: 0.0000000001",
            "budget.max_cost_usd: expected at most 9 decimals, got 1E-10",
        ),
        (
            "max_cost_usd",
            "‸max_cost_eur",
            "budget.max_cost_eur: unknown field 'max_cost_eur' (did you mean 'max_cost_usd'?)",
        ),
        (
            "budget: { max_calls: 20, max_cost_usd: 0.10 }",
            "‸budget: {}",
            "budget: expected max_calls, max_cost_usd or both",
        ),
        (
            "budget: { max_calls: 20, max_cost_usd: 0.10 }",
            "‸budget: { max_calls: null }",
            "budget: expected max_calls, max_cost_usd or both",
        ),
        ("repeat: 3", "‸repeat: 1001", "repeat: expected 1 to 1000, got 1001"),
        ("repeat: 3", "‸repeat: '3'", "repeat: expected an integer, got '3'"),
        ("  m: {", "  ‸mm: {", "prices.mm: no target has the model 'mm' (did you mean 'm'?); models of targets: m, n"),
        ("output_per_mtok: 2.5, ", "", "prices.‸m: missing required field 'output_per_mtok'"),
        (
            "cached_per_mtok: 0.1",
            "‸cached_per_mtok: lots",
            "prices.m.cached_per_mtok: expected US dollars such as 5, $5 or 0.25, got 'lots'",
        ),
        ("version: 1.10", "‸version: [1]", 'version: expected a version such as "1", got an array'),
        (
            "id: small",
            "‸id: Small Lab",
            "id: expected lower-case letters, digits and '-', at most 100 characters; got 'Small Lab'",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_was_expected(
    findings: Callable[..., str], old: str, new: str, message: str
) -> None:
    text = changed(LAB, old, new)
    if "‸" in text:
        text, place = marked(text)
        assert findings(lab=text) == f"lab.yaml:{place}: {message}"
    else:
        assert findings(lab=text) == f"lab.yaml:9:3: {message.replace('‸', '')}"


def test_everything_wrong_in_all_files_is_told_at_once(findings: Callable[..., str]) -> None:
    found = findings(
        config=changed(CONFIG, "backend: house\n", "backend: mouse\n"),
        lab=changed(LAB, "repeat: 3", "repeat: 0"),
        fixture=changed(FIXTURE, "tool_name: rm", "tool_name: 3"),
    )
    assert [line.partition(": ")[0].partition(":")[0] for line in found.splitlines()] == [
        "config.yaml",
        "lab.yaml",
        "fixtures/toolgate/rm-root.yaml",
    ]


def test_a_configuration_that_cannot_be_read_hides_no_other_finding(findings: Callable[..., str]) -> None:
    found = findings(config="a: 1\na: 2", lab=changed(LAB, "repeat: 3", "repeat: 0"), fixture="id: x")
    assert [line.split(" ")[0] for line in found.splitlines()] == [
        "config.yaml:2:1:",
        "lab.yaml:7:1:",
        "fixtures/toolgate/rm-root.yaml:1:1:",
        *["fixtures/toolgate/rm-root.yaml:1:1:"] * 3,
    ]


def test_a_configuration_that_is_missing_is_a_finding(tmp_path: Path) -> None:
    root = write_lab(tmp_path / "lab")
    (root / "config.yaml").unlink()
    with pytest.raises(UsageError) as caught:
        read_lab(find_lab(root, None))
    assert str(caught.value) == f"{root}/config.yaml: no such file"


@pytest.mark.parametrize("name", ["lab.yaml", "config.yaml", "fixtures/toolgate/rm-root.yaml"])
def test_a_file_that_is_a_link_out_of_the_lab_is_refused(tmp_path: Path, name: str) -> None:
    root = write_lab(tmp_path / "lab")
    (root / name).rename(tmp_path / "outside.yaml")
    (root / name).symlink_to(tmp_path / "outside.yaml")
    assert check_lab(find_lab(root, None)).findings == (f"{root / name}: leads outside through a symbolic link",)


def test_a_file_that_is_a_link_within_the_lab_is_read(tmp_path: Path) -> None:
    root = write_lab(tmp_path / "lab")
    (root / "shared.yaml").write_bytes((root / "fixtures/toolgate/rm-root.yaml").read_bytes())
    (root / "fixtures/toolgate/rm-root.yaml").unlink()
    (root / "fixtures/toolgate/rm-root.yaml").symlink_to("../../shared.yaml")
    assert len(read_lab(find_lab(root, None)).cases) == 1


def test_the_same_model_of_the_same_backend_costs_something_for_all_targets_or_for_none(
    findings: Callable[..., str],
) -> None:
    text = changed(LAB, "  b: {", "  b: { backend: ollama, model: n }\n  c: {")
    assert findings(lab=text) == (
        "lab.yaml:6:35: targets.c.local: targets 'b' and 'c' have the same backend and model: "
        "both have to be local, or neither"
    )
