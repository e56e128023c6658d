"""hub: decisions over HTTP, for programs of this machine.

Start reading at `app.py`.
"""
