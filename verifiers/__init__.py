"""verifiers: deterministic, local checks of a run; the scorers of other tools.

Where a new thing goes:

- a verifier kind: a module with one frozen class, whose fields are the keys of its entry in a suite file and whose
  method `verify` returns a verdict (`base.py`), and a line in the table of `registry.py`; another package uses the
  entry point group `evalctl.verifiers` instead
- a rule for combining verdicts: `aggregate.py`
- a protection of the files that a check runs: `pristine.py`
- an assertion over a decision of a lab: `assertion.py`

Start reading at `base.py`.
"""
