"""recordings: cassettes of decision labs: written live, read offline.

Start reading at `cassettes.py`.
"""
