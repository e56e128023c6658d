"""Whatever stands in the place of a value, a lab is read or told to be wrong; nothing crashes."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.lab.catalog import find_lab
from orchestrator.lab.formats.lab_yaml import check_lab
from tests.orchestrator.lab.formats.labs import CONFIG, FIXTURE, LAB, write_lab

DOCUMENTS = {
    "config.yaml": yaml.safe_load(CONFIG),
    "lab.yaml": yaml.safe_load(LAB),
    "fixtures/toolgate/rm-root.yaml": yaml.safe_load(FIXTURE),
}
ODD: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["house", "rule", "model", "judge", "true", "{{ input", "a" * 5000, "\x1b[31m", "yes", "../x"])
    | st.just([])
    | st.just({})
    | st.just([{}])
    | st.just({"type": "string"})
    | st.just({"$ref": "#"})
    | st.just([[1, None], "x"])
)
FINDING = re.compile(r"[^\n]*(\.yaml:[0-9]+:[0-9]+|/toolgate: there is no capability 'toolgate').+", re.DOTALL)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield from places(child, (*at, step))


PLACES = [(name, at) for name, document in DOCUMENTS.items() for at in places(document) if at]


def test_anything_in_the_place_of_any_value_is_read_or_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = write_lab(tmp_path_factory.mktemp("any") / "lab")
    place = find_lab(root, None)

    @given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ODD, st.booleans()), min_size=1, max_size=3))
    def check(changes: list[tuple[tuple[str, tuple[Any, ...]], Any, bool]]) -> None:
        documents = copy.deepcopy(DOCUMENTS)
        for (name, at), odd, remove in changes:
            here = documents[name]
            try:
                for step in at[:-1]:
                    here = here[step]
                if remove and isinstance(here, dict):
                    here.pop(at[-1], None)
                else:
                    here[at[-1]] = copy.deepcopy(odd)
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change has taken the place away
        for name, document in documents.items():
            (root / name).write_text(yaml.safe_dump(document), encoding="utf-8")
        checked = check_lab(place, path="/usr/bin:/bin")
        assert (checked.lab is None) == bool(checked.findings)
        assert all(FINDING.fullmatch(finding) for finding in checked.findings)
        assert all(line.isprintable() for finding in checked.findings for line in finding.split("\n"))

    check()
