"""The selection of a lab's cases and targets that a sweep runs: those named on the command line, or all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from orchestrator.lab.model import REPLAY, Lab, LabCase, Target
from orchestrator.text import list_names
from store.documents.structure import suggest_nearest
from store.errors import UsageError
from store.events import Json


@attrs.frozen(kw_only=True)
class Selection:
    """The selected cases in the lab's order, and the selected targets in the order of `lab.yaml`."""

    cases: tuple[LabCase, ...]
    targets: tuple[Target, ...]
    replay: bool = True
    """Whether to run cases that their own `replay` answers; matters only offline."""

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object that a sweep stores."""
        return {
            "fixtures": [case.case_id for case in self.cases],
            "targets": [target.id for target in self.targets],
            "replay": self.replay,
        }


def restore_selection(lab: Lab, stored: Mapping[str, Any]) -> Selection:
    """Restore a stored selection, as far as the lab still has its cases and targets.

    The comparison of file hashes reports those that are missing.
    """
    return Selection(
        cases=tuple(case for case in lab.cases if case.case_id in stored["fixtures"]),
        targets=tuple(target for target in lab.targets.values() if target.id in stored["targets"]),
        replay=stored["replay"],
    )


def select_cases(
    lab: Lab, *, capability: str | None = None, cases: Sequence[str] = (), targets: Sequence[str] = ()
) -> Selection:
    """Select the named cases and targets of *lab*; an empty option selects all.

    Args:
        lab: the lab.
        capability: only its cases.
        cases: ids, or `capability/id`.
        targets: ids; `replay` selects the cases' own answers.

    Raises:
        UsageError: a capability, fixture or target does not exist (the error names the nearest), or no case is left.
    """
    if capability is not None:
        _refuse_unknown("CAPABILITY", "capability", [capability], lab.daemon.capabilities)
    selected = [case for case in lab.cases if capability in (None, case.capability)]
    if cases:
        known = {name for case in selected for name in (case.id, case.case_id)}
        _refuse_unknown("--fixture", "fixture", cases, known, of=capability)
        selected = [case for case in selected if case.id in cases or case.case_id in cases]
    if not selected:
        owner = f"capability {capability!r} has" if capability is not None else "the lab has"
        raise UsageError(f"{lab.root}: {owner} no fixtures", "Write one: fixtures/CAPABILITY/ID.yaml.")
    _refuse_unknown("--target", "target", targets, [*lab.targets, REPLAY])
    return Selection(
        cases=tuple(selected),
        targets=tuple(target for target in lab.targets.values() if not targets or target.id in targets),
        replay=not targets or REPLAY in targets,
    )


def _refuse_unknown(flag: str, noun: str, wanted: Iterable[str], known: Iterable[str], of: str | None = None) -> None:
    names = sorted(known)
    unknown = [name for name in dict.fromkeys(wanted) if name not in names]
    if not unknown:
        return
    listed = ", ".join(f"{name!r}{suggest_nearest(name, names)}" for name in unknown)
    owner = f"capability {of!r} has" if of is not None else "the lab has"
    short = [name for name in names if "/" not in name]
    raise UsageError(f"{flag}: {owner} no {noun} {listed}", f"There are: {list_names(short, 20) or 'none'}.")
