"""formats: readers of `suite.json` and `compare.json`, one module per file format.

A reader takes a path and returns frozen values, or raises one `UsageError` that lists every problem of the file with
its line and column. Start reading at `suite_json.py`. A new format gets its own module here; rules on
values that need no other file go into a module of pure functions, as in `suite_rules.py`.
"""
