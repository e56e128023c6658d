"""decisions: decision flows, in which rules, models and specialists decide about one input.

A flow opens no connection: it asks through `providers.base.Ask`, which is the orchestrator's gate in a lab and the bare
provider in a hub. Start reading at `flow.py`; `model.py` holds the configuration, `decision.py` the result.

A new kind of node: a class in `model.py`, its step in `flow.py` and, if it calls something, a provider in
`specialists.py` that `backends.py` opens. A new kind of recorded answer goes to `player.py`.
"""
