"""prices: what a model's tokens cost.

Prices come from configuration and are a condition of a sweep, never part of what is measured. Knows usage and money;
asks nobody and counts nothing: the gate does. Start reading at `price.py`.
"""
