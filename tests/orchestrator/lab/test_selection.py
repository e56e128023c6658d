from typing import Any

import pytest

from orchestrator.lab.selection import Selection, select_cases
from store.errors import UsageError
from tests.orchestrator.lab.labs import fixture, lab

LAB = lab(fixture("ls-home"), fixture("rm-root"), fixture("rm-me"))


def ids(selection: Selection) -> tuple[list[str], list[str]]:
    return [one.id for one in selection.cases], [one.id for one in selection.targets]


def test_without_a_name_everything_is_chosen() -> None:
    assert ids(select_cases(LAB)) == (["ls-home", "rm-root", "rm-me"], ["jev", "nimble"])


def test_fixtures_are_named_by_id_or_with_their_capability_and_stay_in_order() -> None:
    assert ids(select_cases(LAB, cases=["gate/rm-me", "ls-home"]))[0] == ["ls-home", "rm-me"]


def test_targets_are_named_by_id_and_replay_means_the_fixtures_own_answers() -> None:
    assert ids(select_cases(LAB, targets=["nimble"]))[1] == ["nimble"]
    assert not select_cases(LAB, targets=["nimble"]).replay
    assert select_cases(LAB, targets=["replay"]).replay
    assert ids(select_cases(LAB, targets=["replay"]))[1] == []


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"capability": "gaet"},
            "CAPABILITY: the lab has no capability 'gaet' (did you mean 'gate'?)\nThere are: gate.",
        ),
        (
            {"cases": ["rm-rot"]},
            "--fixture: the lab has no fixture 'rm-rot' (did you mean 'rm-root'?)\nThere are: ls-home, rm-me, rm-root.",
        ),
        (
            {"targets": ["nimbel"]},
            "--target: the lab has no target 'nimbel' (did you mean 'nimble'?)\nThere are: jev, nimble, replay.",
        ),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        select_cases(LAB, **wanted)

    assert str(refused.value) == message


def test_a_capability_without_fixtures_is_told() -> None:
    with pytest.raises(UsageError, match="capability 'gate' has no fixtures"):
        select_cases(lab(), capability="gate")
