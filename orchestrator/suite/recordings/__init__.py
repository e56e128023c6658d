"""replay: runs recorded as cassettes, and played back without a model.

Who records and who plays stands at the provider's port and lives there (`providers/recording/`); here
is what goes with suites, sweeps and files. `recordings.py` finds what to play, from `cassettes.py` or from the events
of a stored sweep (`stored_recordings.py`); `taping.py` records a sweep, `rehearsal.py` does both with nothing of
the user's in it. Start reading at `recordings.py`.
"""
