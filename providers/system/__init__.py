"""system: the outside world: HTTP, processes, sandboxes, directory trees and paths. One module per effect.

Imports nothing of the other providers but their errors. Start reading at `process.py` and `http.py`.
"""
