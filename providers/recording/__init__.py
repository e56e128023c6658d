"""recording: cassettes. A recorder and a replayer stand at the provider port, so gate, agent and store know neither.

Start reading at `cassette.py`.
"""
