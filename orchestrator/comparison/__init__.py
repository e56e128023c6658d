"""comparison: two sides of one suite, the difference between them, and the limits of that difference.

A side, `Arm`, is read from a report file or from a sweep's stored rows; both are treated alike. `build.py` makes the
one value of `model.py`, and every output format shows that value. Start reading at `build.py`. A new figure goes into
`model.py`; a new output format becomes a module beside `markdown.py`.
"""
