"""hub: the HTTP server behind `hub serve`, which answers decisions to programs on this machine.

`app.py` is an ASGI application; the verb in `cli/lab/hub.py` serves it. Start reading at `app.py`.
"""
