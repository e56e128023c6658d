"""orchestrator: make it happen.

Reads the layouts, plans, dispatches, executes runs, reports, and holds the command line. Everything below it takes
clocks, randomness and settings as arguments. Start reading at `sweep.py`.
"""
