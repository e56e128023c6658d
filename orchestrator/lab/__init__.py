"""lab: decision labs, which run test cases through decision flows, offline from recorded answers or live.

`model.py` holds the contents of a lab's files, which `formats/` reads. `plan.py` lays out the runs and `execute.py`
executes one. `recordings/` holds cassettes, `report/` the reports, `hub/` the HTTP server that answers decisions. Start
reading at `model.py`. A lab's files, reports and messages call a case a fixture.

A new setting of a lab goes to `formats/` and `model.py`, a new warning of `lab check` to `warnings.py`.
"""
