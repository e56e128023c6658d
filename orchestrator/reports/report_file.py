"""Reads `report.json` field by field: it may have been edited, cut off, or written by another program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import attrs

from store.documents.structure import describe_value
from store.errors import UsageError
from store.events import Json

MAX_REPORT_BYTES = 256 * 1024 * 1024
"""Bytes; a larger file is refused."""
REPORT_NAME = "report.json"
MAX_FIGURE = 10**15
"""Largest count or figure that a report may hold."""


def read_fields(path: Path) -> ReportFields:
    """Parse the report at *path*, a `report.json` or its directory, and return its outermost object.

    Raises:
        UsageError: there is no report, it cannot be read, or it is not a JSON object.
    """
    file = path / REPORT_NAME if path.is_dir() else path
    return ReportFields(file, (), _parse_report(file))


@attrs.frozen
class ReportFields:
    """Reader of one object of a report. Every method refuses values that are impossible.

    Raises:
        UsageError: from each method, with file and field, if the field is missing or has another type.
    """

    file: Path
    keys: tuple[str, ...]
    """Keys that lead from the outermost object to this one."""
    value: Mapping[str, Json]

    def refuse_field(self, name: str, problem: str) -> NoReturn:
        """Raise the error that refuses the field *name*."""
        path = ".".join((*self.keys, name))
        raise UsageError(f"{self.file}: {path}: {problem}", "The report may have been edited or damaged.")

    def read_object(self, name: str, *, default: Mapping[str, Json] | None = None) -> ReportFields:
        """Read the object at *name*; *default* if it is missing."""
        value = self.value.get(name, default)
        if not isinstance(value, Mapping):
            self.refuse_field(
                name, f"expected an object, got {describe_value(value)}" if name in self.value else "is missing"
            )
        return ReportFields(self.file, (*self.keys, name), value)

    def read_list(self, name: str) -> list[Json]:
        """Read the list at *name*."""
        value = self.value.get(name)
        if not isinstance(value, list):
            self.refuse_field(
                name, f"expected an array, got {describe_value(value)}" if name in self.value else "is missing"
            )
        return value

    def read_item(self, name: str, index: int) -> ReportFields:
        """Read the object at *index* in the list at *name*."""
        value = self.read_list(name)[index]
        if not isinstance(value, Mapping):
            self.refuse_field(f"{name}[{index}]", f"expected an object, got {describe_value(value)}")
        return ReportFields(self.file, (*self.keys, f"{name}[{index}]"), value)

    def read_string(self, name: str, *, default: str | None = None) -> str:
        """Read the string at *name*; *default* if it is missing."""
        value = self.value.get(name, default)
        if not isinstance(value, str):
            self.refuse_field(
                name, f"expected a string, got {describe_value(value)}" if name in self.value else "is missing"
            )
        return value

    def read_count(self, name: str, *, maximum: int | None = None) -> int:
        """Read the count at *name*, at most *maximum*."""
        value = self.value.get(name)
        if type(value) is not int or not 0 <= value <= MAX_FIGURE:
            self.refuse_field(
                name, f"expected a count, got {describe_value(value)}" if name in self.value else "is missing"
            )
        if maximum is not None and value > maximum:
            self.refuse_field(name, f"{value} is more than the possible maximum, {maximum}")
        return value

    def read_number(self, name: str, *, maximum: float = MAX_FIGURE) -> float | None:
        """Read the number at *name*, from 0 to *maximum*, or None if it is missing."""
        value = self.value.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not 0 <= value <= maximum:
            self.refuse_field(name, f"expected a number from 0 to {maximum:g}, got {describe_value(value)}")
        return float(value)

    def read_tokens(self, name: str) -> int | None:
        """Read the count at *name*, or None if it is missing."""
        return None if self.value.get(name) is None else self.read_count(name)


def _parse_report(file: Path) -> Mapping[str, Json]:
    try:
        if not file.is_file():
            hint = "Name a directory with a report.json, that file, or a sweep."
            if file.with_name("results.jsonl").is_file():
                hint = "This is the run directory of a lab: compare its targets by its sweep, SWEEP:TARGET."
            if file.with_name("comparison.json").is_file():
                hint = "This directory holds a comparison; each variant's report is in a directory of its own."
            raise UsageError(f"{file}: there is no report here", hint)
        size = file.stat().st_size
        if size > MAX_REPORT_BYTES:
            raise UsageError(f"{file}: {size:,} bytes are too many for a report: at most {MAX_REPORT_BYTES:,} are read")
        value = json.loads(file.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{file}:{error.lineno}: not JSON: {error.msg}", "It may have been cut off or edited."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not a report: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{file}: not a report: expected an object, got {describe_value(value)}")
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")
