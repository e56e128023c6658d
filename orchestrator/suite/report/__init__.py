"""report: what the stored rows of a suite sweep say. One value, `Report`, and one module per format.

A report is built from rows alone, so that `show` can rebuild what `run` printed. Start reading at `model.py`.
"""
