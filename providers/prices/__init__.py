"""prices: price tables and the cost of a model's tokens.

Prices come from configuration and are a condition of a sweep, never part of the measurement. The package computes
costs; the orchestrator's gate keeps the account. A new price tier is a field of `Price` and an entry of `TIER_FIELDS`
in `price.py`, which `table.py` then reads and checks. Start reading at `price.py`.
"""
