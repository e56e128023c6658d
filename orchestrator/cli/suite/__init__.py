"""suite: the verbs that run, record, verify and export agent suites, one module each.

Start with `run.py`, whose flags become the `RunRequest` that `running.py` carries out; `sweeping.py` runs the sweep,
reports and chooses the exit code. A new verb is a module here and a line in `cli/verbs.py`.
"""
