"""stress: generator of tasks with long contexts, from a seed.

It makes the bundled suites `long-context` and `long-context-stress`, and suites with more instances. Each module makes
tasks of one kind as values, with fixture, verifiers and scripted solution. No generator reads a clock or a file, and
equal seeds give equal bytes under every version of Python. Only `writing.py` touches the disk. Start reading at
`suites.py`. A new kind of task gets its own module, whose tasks `suites.py` adds to a suite.
"""
