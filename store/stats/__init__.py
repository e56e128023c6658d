"""stats: statistics on stored numbers, as pure functions. No SQL, no clock, and randomness only from a given seed.

Where a new thing goes:

- a rate, quantile or interval of one side: `rates.py`; of confidences: `calibration.py`
- a comparison of two sides of one case: `compare.py`; over all cases of a suite: `paired.py`; while it runs:
  `sequential.py`
- a sample size or power: `planning.py`; a distribution: a module of its own, such as `student.py`

Start reading at `rates.py`.
"""
