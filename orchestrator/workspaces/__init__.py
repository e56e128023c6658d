"""workspaces: where a run works: a private copy of a task's fixture, removed whatever became of it.

Knows files and git. Knows nothing about stores, claims or verdicts. Start reading at `fixture.py`.
"""
