"""export: one file of a stored sweep that can be given to other people.

An export leaves out paths, hosts and endpoints, and is refused where it holds a secret (`store/secrets/fields.py`,
which cassettes are checked with too). Start reading at `bundle.py`.
"""
