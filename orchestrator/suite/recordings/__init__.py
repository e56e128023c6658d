"""recordings: cassettes of a suite's runs, and their replay without a model.

Recorder and replayer stand at the provider's port (`providers/recording/`); this package joins them to suites, sweeps
and files. `recordings.py` finds what to play: `cassettes.py` reads files, `stored_recordings.py` the events of a
stored sweep. `taping.py` records a sweep, `rehearsal.py` records and plays the bundled suites. Start reading at
`recordings.py`.
"""
