"""stress: tasks whose context is long, made from a seed.

Writes the bundled suites `long-context` and `long-context-stress`, and suites with more instances. Each module makes
the tasks of one kind as values, with fixture, verifiers and scripted solution; none of them reads a clock or a file,
and the same seed gives the same bytes under every version of Python. Only `writing.py` touches the disk. Start reading
at `suites.py`.
"""
