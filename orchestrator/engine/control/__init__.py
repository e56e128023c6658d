"""control: stopping a process and waiting: signals, deadlines, commands of other terminals, and the watchdog.

Start reading at `control.py`.
"""
