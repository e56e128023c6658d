"""comparison: two sides of one suite, and what their difference does and does not say.

A side, `Arm`, comes from a report file or from a sweep's stored rows, and both are treated alike. Everything that
compares builds the one value of `model.py` and shows it. Start reading at `build.py`.
"""
