"""sweeps: the verbs that work on stored sweeps of every kind, one module each."""
