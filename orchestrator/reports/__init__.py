"""reports: what all kinds of sweeps show: conditions, phrases, tables, listings, one run in full, and `status/`.

A kind's own report is in its folder (`suite/report/`, `lab/report/`). Start reading at `conditions.py`.
"""
