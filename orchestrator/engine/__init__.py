"""engine: runs a sweep of any kind, from the stored plan to the last result. It knows no kind of run.

Start reading at `sweep.py`; `worker.py` is one process's part. `kind.py` is the port that a new kind of run implements,
`ports.py` the ports to the record. `gate/` sends one request, `control/` stops, pauses and waits.
"""
