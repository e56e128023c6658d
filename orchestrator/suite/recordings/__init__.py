"""recordings: cassettes of a suite's runs, and replay of the runs without a model.

The recorder and the replayer wrap a provider (`providers/recording/`); this package joins them to suites, sweeps and
files. `recordings.py` collects the cassettes of a replay; start reading there. `cassettes.py` reads and writes cassette
files, and `stored_recordings.py` rebuilds cassettes from the events of a stored sweep. `taping.py` records a sweep, and
`rehearsal.py` records the bundled suites and replays suites in CI. A new source of recordings gets its own module and
returns `Recordings`.
"""
