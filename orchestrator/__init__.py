"""orchestrator: reads suites and labs, plans sweeps, executes runs, writes reports, and contains the command line.

A kind of sweep is one folder (`suite/`, `lab/`); the kinds share the folders of the layers below, and the contracts in
`pyproject.toml` check that order. Start reading at `engine/sweep.py`. A new kind of sweep is a new folder and an entry
in `kinds.py`.
"""
