"""suite: everything about agent suites: the configuration, the plan, one run, recordings and reports.

`model.py` holds a suite in memory; start reading there. `catalog.py` finds suites and `formats/` reads their files.
`config.py` and `settings.py` hold what a sweep measures and how it runs. `plan.py` lays out the runs, `kind.py` joins a
suite to the engine, and `execute.py` carries out one run. `recordings/` records and replays runs, `report/` writes
reports, `export/` makes a file to share, and `stress/` generates the long-context suites. A new file format gets a
reader in `formats/`; a new condition of a sweep becomes a field of `Settings`.
"""
