"""Runs of a lab without the secrets that only the name beside them gives away."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import attrs

from orchestrator.lab.report.run import LabRun
from store.rows import Verdict
from store.secrets.scanner import Cleaner


def clean_runs(runs: Iterable[LabRun], cleaner: Cleaner) -> Iterator[LabRun]:
    """*runs*, with marks in what assertions were over: a value is looked at with its name, as `{"password": "..."}`.

    Every other text of a report is looked at by itself, by `orchestrator.reports.clean`.
    """
    for run in runs:
        kept = tuple(_clean_verdict(one, cleaner) for one in run.verdicts)
        same = all(new is old for new, old in zip(kept, run.verdicts, strict=True))
        yield run if same else attrs.evolve(run, verdicts=kept)


def _clean_verdict(judgement: Verdict, cleaner: Cleaner) -> Verdict:
    text = json.dumps(dict(judgement.detail))
    clean = cleaner.mask_text(text)
    return judgement if clean == text else attrs.evolve(judgement, detail=json.loads(clean))
