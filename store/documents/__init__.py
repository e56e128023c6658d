"""documents: strict parsing of users' JSON and YAML files, and the encodings of stored values. No SQL.

Where a new thing goes:

- a syntax of users' files: a module like `positions.py` (JSON) and `yaml.py` that returns a `Document` with positions
- a rule for turning a document into classes: `structure.py`; a rule of one format stays with that format's package
- an encoding of stored values: `canonical.py` for hashed values, `encoding.py` for JSON columns, `text.py` for TEXT
  columns

Start reading at `structure.py`.
"""
