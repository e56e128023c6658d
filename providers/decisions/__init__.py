"""decisions: flows of rules, models and specialists that decide about one input.

A flow knows no network: it asks through `providers.base.Ask`, which is the orchestrator's gate in a lab and the bare
provider in a hub. Start reading at `flow.py`; `model.py` is what a configuration says, `decision.py` what comes out.
"""
