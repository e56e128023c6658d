"""control: stops, pauses and bounds the work of a process: signals, deadlines, commands, waits, and the watchdog.

Start reading at `control.py`. A new reason to stop goes there; a new kind of wait goes into `waits.py`.
"""
