"""scripted: a provider that answers from a script, for tests, examples and demonstrations.

Start reading at `scripted.py`.
"""
