"""Benchmarks: goals, a floor to hold them against, and evalctl, measured in one interleaved run. See README.md."""
