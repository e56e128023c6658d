"""recording: cassettes, the recordings of runs, and their replay.

Recorder and replayer implement the provider port, so gate, agent and store need to know neither. A new field of a
request goes to `material.py` (what is compared), a new field of an answer to `cassette.py` (the file format), a new
kind of varying text to `normalization.py`. Start reading at `cassette.py`.
"""
