"""Bundle: a stored sweep, or one of its variants, as one JSON file that can be shared.

The bundle has the content of the report files, without absolute paths and without the endpoint. It is refused as a
whole if a field contains a secret or the mark of a removed one.
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
    """A bundle contains a secret. The message names the fields and never a value."""

    subject: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.subject} cannot be shared: it contains a secret, or the mark of a removed one, in "
            f"{list_names(self.fields, noun='fields')}\n"
            "Nothing was written. `evalctl show` lists what the sweep contains."
        )


def build_bundle(reader: Reader, sweep: SweepRow, variant: str | None) -> dict[str, Json]:
    """Build the bundle's document from the store, not yet scrubbed or checked; *variant* limits it to one variant."""
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
    """Make the scrubber that removes this machine's directories and the sweep's endpoint from a bundle."""
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
    """Render the bundle as ASCII text: checked for secrets, then scrubbed. Equal rows give equal bytes.

    Raises:
        HoldsSecret: the document contains a secret; *subject* names the document in the message.
    """
    order = ("runs", "report", "markdown")
    secrets = [path for name in order for path, _ in find_secret_fields(document[name], (name,), redactor)]
    if secrets:
        raise HoldsSecret(subject=subject, fields=tuple(dict.fromkeys(map(format_path, secrets))))
    return json.dumps(scrubber.scrub_json(dict(document)), indent=2, allow_nan=False) + "\n"


def write_bundle(file: Path, text: str, *, force: bool) -> None:
    """Write *text* to *file*, whole or not at all; replace an existing file only with *force*.

    Raises:
        UsageError: the file exists, or cannot be written.
    """
    refuse_existing(file, force=force)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replace_file(file, only_new=not force) as stream:
                stream.write(text)
        except FileExistsError as error:  # another process created it after the check
            raise _make_exists_error(file) from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from error


def refuse_existing(file: Path, *, force: bool) -> None:
    """Refuse a *file* that must not be replaced.

    Raises:
        UsageError: the file exists and *force* is false, or it is not a regular file.
    """
    if file.is_dir():
        raise UsageError(f"{file}: is a directory; --out names a file")
    # a rename would replace a device, a pipe or a link, such as /dev/null, with a plain file
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise UsageError(
            f"{file}: is a link or not a regular file, so evalctl does not replace it", "Name another file."
        )
    if not force and file.exists():
        raise _make_exists_error(file)


def _make_exists_error(file: Path) -> UsageError:
    return UsageError(f"{file}: already exists", "Pass --force to replace it, or name another file.")


def _list_path_spellings(path: Path) -> list[Path]:
    """Return the spellings of a directory: absolute, and with links resolved."""
    return list(dict.fromkeys((path.absolute(), path.resolve())))
