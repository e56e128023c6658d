"""lab: the verbs `evalctl lab ...` and `evalctl hub ...`, one module each.

Start with `live.py`, whose flags become the `LabRequest` that `running.py` carries out; `sweeping.py` runs the sweep,
reports and chooses the exit code. A new verb is a module here and a line in `cli/verbs.py`.
"""
