"""The bundle: one JSON file of a stored sweep, or of one of its variants, that can be given to somebody else.

It holds what the report files hold, without absolute paths and without the endpoint. It is refused as a whole where a
field holds a secret, or the mark of one that was taken out before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from orchestrator.files import replace_file
from orchestrator.reports import runs_jsonl
from orchestrator.suite.export.scrub import PLAIN, Scrubber, list_endpoint_names
from orchestrator.suite.report import json_report, markdown
from orchestrator.suite.report.build import build_report
from orchestrator.text import list_names
from store.documents.positions import format_path
from store.errors import EvalctlError, UsageError
from store.events import Json
from store.rows import CellRecord, RunRecord, SweepRow
from store.secrets.fields import find_secret_fields
from store.secrets.redactor import Redactor

if TYPE_CHECKING:
    from store.sql.reader import Reader

SCHEMA = "evalctl.bundle/1"
SCHEMA_VERSION = 1


@attrs.define(slots=False)
class HoldsSecret(EvalctlError):
    """What was to be shared holds a secret. Names the fields and never a value."""

    subject: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.subject} cannot be shared: it contains a secret, or the mark of a removed one, in "
            f"{list_names(self.fields, noun='fields')}\n"
            "Nothing was written. `evalctl show` lists what the sweep contains."
        )


def build_bundle(reader: Reader, sweep: SweepRow, variant: str | None) -> dict[str, Json]:
    """The bundle's document as the store has it, neither scrubbed nor looked through; *variant* names one arm."""
    runs: list[Json] = []

    def add_run(run: RunRecord, cell: CellRecord) -> None:
        runs.append(runs_jsonl.run_to_json(sweep, run, cell))

    report = build_report(reader, sweep, on_run=add_run, variant=variant)
    return {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "report": json_report.report_to_json(report),
        "runs": runs,
        "markdown": markdown.render_markdown(report),
    }


def make_scrubber(sweep: SweepRow, *, home: str | None, data: Path, run: Path, temporary: Sequence[str]) -> Scrubber:
    """What takes out of a sweep's bundle where things lay on this machine and whom they were asked of."""
    settings = sweep.conditions.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    provider = settings.get("provider")
    endpoints = list_endpoint_names(settings.get("base_url"))
    if isinstance(provider, str) and PLAIN.fullmatch(provider) is None:
        endpoints.append(provider)
    return Scrubber(
        {
            "<run-dir>": _list_path_spellings(run),
            "<data-dir>": _list_path_spellings(data),
            "<home>": _list_path_spellings(Path(home)) if home else (),
            "<tmp>": [path for folder in temporary for path in _list_path_spellings(Path(folder))],
        },
        endpoints,
    )


def render_bundle(document: Mapping[str, Json], scrubber: Scrubber, redactor: Redactor, *, subject: str) -> str:
    """The bundle as text: looked through for secrets first, then scrubbed. Pure ASCII; the same rows, the same bytes.

    Raises:
        HoldsSecret: it holds one.
    """
    order = ("runs", "report", "markdown")
    found = [path for name in order for path, _ in find_secret_fields(document[name], (name,), redactor)]
    if found:
        raise HoldsSecret(subject=subject, fields=tuple(dict.fromkeys(map(format_path, found))))
    return json.dumps(scrubber.scrub_json(dict(document)), indent=2, allow_nan=False) + "\n"


def write_bundle(file: Path, text: str, *, force: bool) -> None:
    """Write *text* to *file*, whole or not at all; what is there stays unless *force* says otherwise.

    Raises:
        UsageError: it exists, or cannot be written.
    """
    refuse_existing(file, force=force)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replace_file(file, only_new=not force) as stream:
                stream.write(text)
        except FileExistsError as error:  # since we looked
            raise _make_exists_error(file) from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from error


def refuse_existing(file: Path, *, force: bool) -> None:
    """Raise where *file* may not be written.

    Raises:
        UsageError: it exists and nobody forces it, or it is anything but a regular file.
    """
    if file.is_dir():
        raise UsageError(f"{file}: is a directory; --out names a file")
    # a rename puts a plain file in the place of a device, a pipe or a link, such as /dev/null, for everybody
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise UsageError(
            f"{file}: is a link or not a regular file, so evalctl does not replace it", "Name another file."
        )
    if not force and file.exists():
        raise _make_exists_error(file)


def _make_exists_error(file: Path) -> UsageError:
    return UsageError(f"{file}: already exists", "Pass --force to replace it, or name another file.")


def _list_path_spellings(path: Path) -> list[Path]:
    """A directory as it is named and as it is when links are followed."""
    return list(dict.fromkeys((path.absolute(), path.resolve())))
