"""Script format of the scripted provider: values and their reader.

docs/scripted-provider.md describes the format. A suite has one file per task, `scripts/<task-id>.json`; a lab has one
per fixture, `scripts/<capability>/<fixture>.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs

from providers.base import Finish
from providers.errors import ErrorKind
from providers.system.paths import PathEscapes, resolve_inside
from providers.usage import Usage
from store.documents.positions import read_json
from store.documents.structure import make_converter, structure_document
from store.errors import UsageError
from store.events import Json

SCRIPTS_FOLDER = "scripts"


def _require_at_least(minimum: int) -> Json:  # attrs types validators loosely
    return attrs.validators.optional(attrs.validators.ge(minimum))


def _check_arguments(_: object, __: object, value: Json) -> None:
    if not isinstance(value, (dict, str)):
        raise ValueError("'arguments' must be an object, or a string that is sent as it is")  # noqa: TRY004 - attrs' way


def _require_plays(_: object, __: object, value: Mapping[str, tuple[Json, ...]]) -> None:
    for variant, plays in value.items():
        if not plays:
            raise ValueError(f"'variants' must not hold an empty array: {variant!r}")


def _require_nonempty(_: object, attribute: attrs.Attribute[Json], value: tuple[Json, ...]) -> None:
    if not value:
        raise ValueError(f"'{attribute.name}' must not be empty")


@attrs.frozen(kw_only=True)
class ScriptedCall:
    """A tool call. Arguments given as a string are sent unchanged, such as broken JSON."""

    id: str
    name: str
    arguments: Json = attrs.field(factory=dict, validator=_check_arguments)


@attrs.frozen(kw_only=True)
class Fault:
    """The failure of one send of a request."""

    kind: ErrorKind
    status: int | None = attrs.field(default=None, validator=_require_at_least(100))
    retry_after_ms: int | None = attrs.field(default=None, validator=_require_at_least(0))
    after_chunks: int | None = attrs.field(default=None, validator=_require_at_least(0))
    """Break the stream after this many deltas; None: fail before the body."""
    message: str = ""
    usage: Usage | None = None
    """Tokens consumed in spite of the failure."""


@attrs.frozen(kw_only=True)
class Signal:
    """A signal that the evaluating process sends to itself, for crashes at a known point."""

    name: Literal["SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGABRT", "SIGHUP"]
    attempt: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    """The attempt that gets the signal, so that the next attempt continues."""
    after_chunks: int = attrs.field(default=0, validator=attrs.validators.ge(0))


@attrs.frozen(kw_only=True)
class ScriptedAnswer:
    """One turn of the model."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: Usage | None = None
    finish: Finish | None = None
    """None: `tool_calls` if there are calls, else `stop`."""
    latency_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """Milliseconds from the request to the answer's end, spread evenly over its deltas."""
    chunks: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    """Number of deltas of the text."""
    model: str | None = None
    """The model that answers; None: the requested one."""
    faults: tuple[Fault, ...] = ()
    """Faults of the first, second, ... send; later sends succeed."""
    signal: Signal | None = None


@attrs.frozen(kw_only=True)
class Play:
    """One course of a run."""

    answers: tuple[ScriptedAnswer, ...]
    compaction: tuple[ScriptedAnswer, ...] = ()
    """Answers to requests for a summary of the transcript."""


@attrs.frozen(kw_only=True)
class Script:
    """The model's behaviour in one task: repetition r plays `plays[r % len(plays)]`."""

    format: Literal["evalctl.script/1"]
    plays: tuple[Play, ...] = attrs.field(validator=_require_nonempty)
    variants: Mapping[str, tuple[Play, ...]] = attrs.field(factory=dict, validator=_require_plays)
    """Plays for single variants of a comparison by id, instead of `plays`."""


def read_scripts(root: Path) -> dict[str, Script]:
    """Read the scripts of the suite in *root* by task id; empty if it has none.

    The keys of a lab are `capability/fixture`, or `capability/fixture/node` for a node with a script of its own.

    Raises:
        UsageError: scripts are malformed; lists every finding of every file.
    """
    folder = root / SCRIPTS_FOLDER
    if not folder.is_dir():
        return {}
    converter = make_converter()
    scripts: dict[str, Script] = {}
    problems: list[str] = []
    for file in sorted(folder.rglob("*.json")):
        place = file.relative_to(folder).as_posix()
        try:
            inside = resolve_inside(root, f"{SCRIPTS_FOLDER}/{place}")
            # lone surrogates are allowed: a script may play a model that sends them
            document = read_json(inside, name=str(file), surrogates=True)
            script, findings = structure_document(document, Script, converter)
            if script is None:
                raise document.make_usage_error(findings)
            scripts[place.removesuffix(".json")] = script
        except (UsageError, PathEscapes) as error:
            problems.append(str(error) if isinstance(error, UsageError) else f"{file}: {error}")
    if problems:
        raise UsageError("\n".join(problems))
    return scripts
