"""engine: a sweep of any kind, from the stored plan to the last result. Knows no kind of run.

Start reading at `sweep.py`.
"""
