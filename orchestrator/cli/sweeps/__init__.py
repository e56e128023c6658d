"""sweeps: the verbs that work on stored sweeps of every kind; pause, continue and cancel share a module.

Start with `show.py`. What differs between kinds comes from the table in `orchestrator/kinds.py`.
"""
