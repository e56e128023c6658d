"""status: a sweep while it is not done. Where it stands, what it waits for, and why a run is unfinished.

Start reading at `standing.py`.
"""
