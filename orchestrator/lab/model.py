"""A decision lab in memory: what `lab.yaml` and the fixtures say, checked and resolved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs

from providers.decisions.model import DaemonConfig
from providers.prices.price import Price
from store.documents.canonical import compute_digest
from store.events import Json
from store.rows import Caps

REPLAY = "replay"
"""The target of a fixture whose own `replay` answers every node; no target may be called so."""

CASSETTES = "cassettes"
"""The folder of a lab's recorded answers."""

Mode = Literal["offline", "live"]


@attrs.frozen(kw_only=True)
class Target:
    """A backend and a model that every model node is aimed at."""

    id: str
    backend: str
    model: str
    local: bool = False
    """It costs nothing."""


@attrs.frozen(kw_only=True)
class Expectation:
    """One assertion: a CEL expression that has to be true, and the rule that it protects."""

    cel: str
    why: str


@attrs.frozen(kw_only=True)
class LabCase:
    """One case: an input, and what is expected of the decision about it."""

    id: str
    """Also the file's name."""
    capability: str
    """The directory's name."""
    version: int
    description: str = ""
    input: Json
    replay: Mapping[str, Json] = attrs.field(factory=dict)
    """Hand-written answers by node: `{answer, confidence}` for a model node, a specialist's JSON else. The reader has
    resolved the names of backends and specialists, so the keys are ids of nodes that ask somebody."""
    expect: tuple[Expectation, ...]
    modes: tuple[Mode, ...] = ("offline", "live")
    content: str
    """SHA-256 of the file, hex."""

    @property
    def case_id(self) -> str:
        """`capability/id`: unique in the lab."""
        return f"{self.capability}/{self.id}"

    @property
    def input_hash(self) -> str:
        """What a cassette records of the input: SHA-256 of its canonical JSON, hex."""
        return compute_digest(self.input).hex()

    def cassette_path(self, target: str) -> str:
        """The path, seen from the lab, of what was recorded of *target*, whether it is there or not."""
        return f"{CASSETTES}/{self.capability}/{self.id}/{target}.json"


@attrs.frozen(kw_only=True)
class Lab:
    """A lab with the daemon configuration that it is run under."""

    id: str
    """From `lab.yaml`; `lab` where it says none."""
    version: str
    """The same; `1`."""
    root: Path
    """The lab's directory, absolute."""
    config: Path
    """The daemon configuration's file, absolute."""
    bundled: bool
    daemon: DaemonConfig
    targets: Mapping[str, Target]
    budget: Caps | None
    """What `record` and `live` may spend."""
    repeat: int
    prices: Mapping[str, Price]
    """By model."""
    cases: tuple[LabCase, ...]
    """Sorted by capability and id."""
    content: Mapping[str, str]
    """SHA-256 (hex) of `lab.yaml`, `config.yaml` and every fixture, by path relative to the lab (the configuration by
    the name `config.yaml`, wherever it is). What a resume compares."""
