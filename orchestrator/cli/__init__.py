"""cli: parse the command line, call one function, render its result.

Start with `verbs.py`, the table from which the help is written, and `app.py`, which runs a command. Verbs stand in
`suite/`, `lab/` and `sweeps/`, one module each; a new one is a module there and a line in the table. A verb imports
what it needs when it runs, so that `evalctl --help` stays quick.
"""
