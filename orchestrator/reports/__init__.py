"""reports: the parts that all kinds of sweeps share: conditions, phrases, tables, listings, one run in full, `status/`.

The report of one kind is in its own folder (`suite/report/`, `lab/report/`). Start reading at `conditions.py`. A phrase
or a table that two kinds of sweep need goes here.
"""
