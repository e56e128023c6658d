"""The verb `export`: write a stored sweep to one file to share."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.common import COMMON, print_json, print_notice


def export(
    sweep: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP[:VARIANT]", help="A sweep's name, a unique prefix, or `last`.", show_default=False
        ),
    ],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="Write to FILE.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Write SWEEP to one JSON file to share: its report, its runs and the report as Markdown.

    Absolute paths become <home>, <data-dir>, <run-dir>, <tmp> or <path>; an endpoint given by hand becomes
    custom-endpoint. If a secret is found, the message names the field and nothing is written. Nothing is uploaded.
    Patterns cannot find everything: read the file before you share it.
    """
    from orchestrator.cli.naming import find_single_variant
    from orchestrator.cli.sweep_setup import store_of
    from orchestrator.kinds import refuse_unreadable
    from orchestrator.reports.sweep_name import parse_sweep_name
    from orchestrator.suite.export.bundle import (
        build_bundle,
        make_scrubber,
        refuse_existing,
        render_bundle,
        write_bundle,
    )
    from orchestrator.suite.settings import Settings
    from orchestrator.text import format_count
    from orchestrator.world import real_world
    from store.secrets.redactor import Redactor, find_credentials
    from store.sql.reader import Reader

    world = real_world()
    environment = world.environment
    refuse_existing(file, force=force)
    with Reader(store_of(world)) as reader:
        refuse_unreadable(reader.find_sweep(parse_sweep_name(sweep).sweep), "export")
        row, variant = find_single_variant(reader, sweep)
        document = build_bundle(reader, row, variant)
        settings = Settings.from_json(row.conditions["settings"])
        scrubbing = make_scrubber(
            row,
            home=environment.get("HOME"),
            data=reader.path.parent,
            run=settings.report_directory(reader.path, row.name),
            temporary=[tempfile.gettempdir(), "/tmp", "/var/tmp"],  # noqa: S108 - looked for, not written to
        )
    name = f"{row.name}:{variant}" if variant else row.name
    text = render_bundle(document, scrubbing, Redactor(find_credentials(environment)), subject=name)
    write_bundle(file, text, force=force)
    runs = len(document["runs"])
    if COMMON.json:
        print_json({"schema": "evalctl.export/1", "sweep": row.name, "runs": runs, "file": str(file)})
    print_notice(
        f"{file}: {format_count(runs, 'run')} of {name}. It was scrubbed by patterns: read it before you share it."
    )
