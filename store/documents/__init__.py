"""documents: strict JSON and YAML from people, and canonical forms of what is stored. No SQL, no files of its own.

Start reading at `structure.py`.
"""
