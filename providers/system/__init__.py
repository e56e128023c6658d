"""system: access to the outside world, one module per effect: HTTP, processes, sandboxes, directory trees, paths.

Every other package does these things through this one. It imports nothing of the other providers but their errors. A
new effect is a new module. Start reading at `process.py` and `http.py`.
"""
