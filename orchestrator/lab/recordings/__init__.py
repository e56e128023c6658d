"""recordings: the cassettes of decision labs, which `lab record` writes and `lab offline` plays.

`cassettes.py` holds the file format, `recording.py` writes cassettes, `offline.py` plans the playback. Start reading at
`cassettes.py`.
"""
