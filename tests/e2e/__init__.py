"""The installed command, run as a user runs it: real processes, real signals, a real store."""
