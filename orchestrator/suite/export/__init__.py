"""sharing: one file of a stored sweep that can be given to somebody else.

Takes out where things lay and whom they were asked of, and refuses what holds a secret; cassettes are refused by the
same search, `secret_fields.py`. Start reading at `bundle.py`.
"""
