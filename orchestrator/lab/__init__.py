"""lab: decision cases that are run through decision flows, offline from recorded answers or live.

`model.py` is what a lab's files say, `planning.py` lays out its runs, `deciding.py` is one run. `orchestrator/layouts/`
reads the files. Reports are in `report/`.
"""
