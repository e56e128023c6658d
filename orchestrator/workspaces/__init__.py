"""workspaces: gives each run a private copy of a task's fixture, and removes it after the run.

It knows files and git, but no store, claim or verdict. Start reading at `fixture.py`; what is prepared inside a
workspace goes beside `git.py`.
"""
