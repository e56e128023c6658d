"""What of a lab is run: the fixtures and targets that somebody named, or all of them."""

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
    """Fixtures in the lab's order, and the targets they are run against in the order of `lab.yaml`."""

    cases: tuple[LabCase, ...]
    targets: tuple[Target, ...]
    replay: bool = True
    """Whether fixtures that are answered by their own `replay` are wanted, too; only offline."""

    def to_json(self) -> dict[str, Json]:
        """As a sweep stores it."""
        return {
            "fixtures": [fixture.case_id for fixture in self.cases],
            "targets": [target.id for target in self.targets],
            "replay": self.replay,
        }


def restore_selection(lab: Lab, stored: Mapping[str, Any]) -> Selection:
    """What a sweep stored, as far as the lab still has it; that the rest is gone is told as a change of files."""
    return Selection(
        cases=tuple(fixture for fixture in lab.cases if fixture.case_id in stored["fixtures"]),
        targets=tuple(target for target in lab.targets.values() if target.id in stored["targets"]),
        replay=stored["replay"],
    )


def select_cases(
    lab: Lab, *, capability: str | None = None, cases: Sequence[str] = (), targets: Sequence[str] = ()
) -> Selection:
    """The part of *lab* that is named; what is not narrowed is taken whole.

    Args:
        lab: the lab.
        capability: its fixtures alone.
        cases: ids, or `capability/id`.
        targets: ids; `replay` among them means the fixtures' own answers.

    Raises:
        UsageError: there is no such capability, fixture or target, with the nearest names; or nothing is left.
    """
    if capability is not None:
        _refuse_unknown("CAPABILITY", "capability", [capability], lab.daemon.capabilities)
    chosen = [one for one in lab.cases if capability in (None, one.capability)]
    if cases:
        known = {name for one in chosen for name in (one.id, one.case_id)}
        _refuse_unknown("--fixture", "fixture", cases, known, of=capability)
        chosen = [one for one in chosen if one.id in cases or one.case_id in cases]
    if not chosen:
        named = f"capability {capability!r} has" if capability is not None else "it has"
        raise UsageError(f"{lab.root}: {named} no fixtures", "Write one: fixtures/CAPABILITY/ID.yaml.")
    _refuse_unknown("--target", "target", targets, [*lab.targets, REPLAY])
    return Selection(
        cases=tuple(chosen),
        targets=tuple(one for one in lab.targets.values() if not targets or one.id in targets),
        replay=not targets or REPLAY in targets,
    )


def _refuse_unknown(flag: str, what: str, wanted: Iterable[str], known: Iterable[str], of: str | None = None) -> None:
    names = sorted(known)
    unknown = [name for name in dict.fromkeys(wanted) if name not in names]
    if not unknown:
        return
    told = ", ".join(f"{name!r}{suggest_nearest(name, names)}" for name in unknown)
    where = f"capability {of!r} has" if of is not None else "the lab has"
    short = [name for name in names if "/" not in name]
    raise UsageError(f"{flag}: {where} no {what} {told}", f"There are: {list_names(short, 20) or 'none'}.")
