"""reports: what a sweep's stored rows say. One value, `Report`, and one module per format.

A report is built from rows alone, so that `show` can rebuild what `run` printed. Start reading at `model.py`.
"""
