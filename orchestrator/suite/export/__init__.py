"""export: a stored sweep as one file that can be shared.

An export leaves out paths, hosts and endpoints (`scrub.py`). It is refused if it contains a secret
(`store/secrets/fields.py`, which also checks cassettes). Start reading at `bundle.py`. A new text to remove, such as
another form of path, becomes a pattern of `scrub.py`.
"""
