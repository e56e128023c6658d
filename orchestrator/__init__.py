"""orchestrator: make it happen: read suites and labs, plan, execute runs, report, and hold the command line.

A kind of sweep is one folder (`suite/`, `lab/`); what the kinds share lies in the folders below them, and the
contracts in `pyproject.toml` hold that order. Start reading at `engine/sweep.py`.
"""
