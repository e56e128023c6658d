"""formats: readers of `suite.json` and `compare.json`: one reader per file format.

A reader takes a path and returns frozen values, or raises one `UsageError` that lists every finding of the file with
its line and column. Start reading at `suite_json.py`.
"""
