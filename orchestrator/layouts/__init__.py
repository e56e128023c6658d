"""layouts: what a user wrote, read and checked. One reader per layout.

A reader takes a path and returns frozen values, or raises one `UsageError` that lists every finding of the file with
its line and column. The generic halves (JSON with positions, values from JSON) are `store.positions` and
`store.structure`, because providers read files of their own with them. Start reading at `suite_json.py`.
"""
