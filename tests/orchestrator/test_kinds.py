from orchestrator.cli.sweeps.resume import RESUMERS
from orchestrator.kinds import KINDS, SUITE, SweepKind, load_attribute
from orchestrator.suite.report import json_report


def parts_of(kind: SweepKind) -> list[str]:
    names = (
        RESUMERS[kind.name],
        kind.report,
        kind.printer,
        kind.encoder,
        kind.conditions,
        kind.proposer,
        kind.report_reader,
    )
    return [name for name in names if name is not None]


def test_every_part_of_every_kind_can_be_imported() -> None:
    for kind in KINDS:
        assert all(callable(load_attribute(name)) for name in parts_of(kind))


def test_every_kind_can_be_resumed() -> None:
    assert {kind.name for kind in KINDS} == set(RESUMERS)


def test_the_schema_of_a_report_leads_to_its_reader() -> None:
    assert json_report.SCHEMA.partition("/")[0] == SUITE.report_schema
