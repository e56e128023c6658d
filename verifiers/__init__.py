"""verifiers: was it right.

One module per kind; each is a frozen class whose fields are the keys of its entry in a suite file, with one method,
`verify`. Deterministic and local. Start reading at `base.py`; the table of kinds is `registry.py`.
"""
