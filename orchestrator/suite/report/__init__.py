"""report: the report of a suite sweep, built from its stored rows alone, so that `show` can rebuild it.

`build.py` makes one value, `Report`, and each output format is a module that shows it. Start reading at `model.py`. A
new figure goes into `model.py` and `build.py`; a new format becomes a module beside `markdown.py`.
"""
