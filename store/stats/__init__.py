"""store.stats: what stored numbers say, as pure functions of numbers. No SQL, no clock, no randomness of its own."""
