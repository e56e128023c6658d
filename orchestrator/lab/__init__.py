"""lab: decision cases that are run through decision flows, offline from recorded answers or live.

`model.py` holds the contents of a lab's files, which `formats/` reads; `plan.py` lays out its runs and `execute.py`
executes one. Cassettes are in `recordings/`, reports in `report/`, decisions over HTTP in `hub/`. Start reading at
`model.py`.
"""
