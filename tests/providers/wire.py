"""The recorded bodies in data/wire, each with its expectation."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "wire"


def samples(*formats):
    """(name, body, document) of every sample in one of the *formats*; the document holds `expected` and `http`."""
    found = []
    for path in sorted(FOLDER.glob("*.expected.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] in formats:
            found.append((document["sample"], (FOLDER / document["sample"]).read_bytes(), document))
    assert found, formats
    return found
