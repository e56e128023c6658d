"""secrets: finding secrets, and redacting them from text on its way into the store and out of it.

Where a new thing goes:

- a shape of keys: `scanner.py`; a very common one also in `redactor.py`, which runs on every streamed delta
- a rule for credentials in the environment: `redactor.py`
- a check of a document before it is shared: `fields.py`

Start reading at `redactor.py`.
"""
