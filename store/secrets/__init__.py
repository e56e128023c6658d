"""secrets: removing secrets from text on its way into the store, and finding them in what leaves it.

`redactor.py` is cheap enough for every delta; `scanner.py` knows many shapes of keys; `fields.py` names the fields of
a document that hold one. Start reading at `redactor.py`.
"""
