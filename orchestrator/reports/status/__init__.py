"""status: a sweep that is not done. Its standing, its open waits, and the reason why a run is unfinished.

`standing.py` reads what `status` prints once, `glance.py` adds what changes from second to second, `doing.py` names
what a run waits for, and `why.py` explains one run. Start reading at `standing.py`.
"""
