"""suite: agent suites: what `suite.json` says, its plan, one run of it, its recordings and reports.

Start reading at `model.py`.
"""
