"""One parser of what people type for a sweep, an arm or a run."""

import pytest

from orchestrator.reports.sweep_name import SweepName, parse_sweep_name


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("last", SweepName("last")),
        ("", SweepName("")),
        ("last:b", SweepName("last", arm="b")),
        ("last:", SweepName("last", arm="")),
        ("last:a:b", SweepName("last", arm="a:b")),
        ("last/3", SweepName("last", position="3")),
        ("last/", SweepName("last", position="")),
        ("last/3:b", SweepName("last", position="3:b")),
        ("last/3/4", SweepName("last", position="3/4")),
        ("last:claude-code/sonnet/none/none", SweepName("last", arm="claude-code/sonnet/none/none")),
        ("last:a/3", SweepName("last", arm="a/3")),
        ("./reports:b", SweepName(".", position="reports:b")),
    ],
)
def test_a_colon_before_the_first_slash_makes_the_rest_the_arm(typed: str, parts: SweepName) -> None:
    assert parse_sweep_name(typed) == parts
