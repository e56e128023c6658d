"""report: the reports of decision labs, computed from stored rows only.

`run.py` holds one run as a value and `model.py` the report. `stored.py` reads runs from the store, `build.py` makes the
report. Each format has a module. Start reading at `model.py`. A new figure goes to `model.py`, `build.py` and
`json_form.py`.
"""
