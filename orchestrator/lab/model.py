"""A decision lab in memory: the checked contents of `lab.yaml`, the daemon configuration and the cases."""

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
"""The target of cases whose own `replay` answers every node. A lab's own targets may not have this name."""

CASSETTES = "cassettes"
"""The folder of a lab's cassettes, relative to the lab."""

Mode = Literal["offline", "live"]


@attrs.frozen(kw_only=True)
class Target:
    """A target: the backend and model that every model node of a run calls."""

    id: str
    backend: str
    model: str
    local: bool = False
    """Calls cost nothing."""


@attrs.frozen(kw_only=True)
class Expectation:
    """One assertion: a CEL expression that must be true, and the rule that it protects."""

    cel: str
    why: str


@attrs.frozen(kw_only=True)
class LabCase:
    """A test case: an input, and assertions about the decision on it. Its file is a fixture."""

    id: str
    """Also the file's name."""
    capability: str
    """The directory's name."""
    version: int
    description: str = ""
    input: Json
    replay: Mapping[str, Json] = attrs.field(factory=dict)
    """Hand-written answers by node: `{answer, confidence}` for a model node, otherwise the specialist's JSON. The
    reader has resolved the names of backends and specialists, so the keys are ids of nodes that make a call."""
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
        """SHA-256 (hex) of the input's canonical JSON, which a cassette records."""
        return compute_digest(self.input).hex()

    def cassette_path(self, target: str) -> str:
        """Return the path of *target*'s cassette relative to the lab, whether or not the file exists."""
        return f"{CASSETTES}/{self.capability}/{self.id}/{target}.json"


@attrs.frozen(kw_only=True)
class Lab:
    """A decision lab with the daemon configuration that it runs under."""

    id: str
    """From `lab.yaml`; `lab` by default."""
    version: str
    """From `lab.yaml`; `1` by default."""
    root: Path
    """The lab's directory, absolute."""
    config: Path
    """The daemon configuration's file, absolute."""
    bundled: bool
    """The lab is part of the installation, where nothing is written."""
    daemon: DaemonConfig
    targets: Mapping[str, Target]
    budget: Caps | None
    """The caps on the spending of `record` and `live`; None if `lab.yaml` sets none."""
    repeat: int
    prices: Mapping[str, Price]
    """By model."""
    cases: tuple[LabCase, ...]
    """Sorted by capability and id."""
    content: Mapping[str, str]
    """SHA-256 (hex) of `lab.yaml`, `config.yaml` and every fixture, by path relative to the lab. The configuration has
    the name `config.yaml`, wherever its file is. `resume` compares these hashes."""
