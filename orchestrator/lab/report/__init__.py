"""report: what the runs of a decision lab come to, from stored rows alone.

`run.py` is one run, `model.py` the report as a value; `build.py` makes the one of the others, `stored.py` reads them,
and every format has a module. Start reading at `model.py`.
"""
