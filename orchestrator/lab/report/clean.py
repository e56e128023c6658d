"""The masking of secrets in a lab's runs that only the name of a value reveals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import attrs

from orchestrator.lab.report.run import LabRun
from store.rows import Verdict
from store.secrets.scanner import Cleaner


def clean_runs(runs: Iterable[LabRun], cleaner: Cleaner) -> Iterator[LabRun]:
    """Yield *runs* with secrets masked in the values of assertions.

    A value is scanned together with its name, such as `{"password": "..."}`. `orchestrator.reports.clean` scans every
    other text of a report by itself.
    """
    for run in runs:
        verdicts = tuple(_clean_verdict(verdict, cleaner) for verdict in run.verdicts)
        same = all(new is old for new, old in zip(verdicts, run.verdicts, strict=True))
        yield run if same else attrs.evolve(run, verdicts=verdicts)


def _clean_verdict(verdict: Verdict, cleaner: Cleaner) -> Verdict:
    text = json.dumps(dict(verdict.detail))
    clean = cleaner.mask_text(text)
    return verdict if clean == text else attrs.evolve(verdict, detail=json.loads(clean))
