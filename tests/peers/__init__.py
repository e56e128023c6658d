"""Witnesses from outside: an endpoint that counts what it is asked, foreign servers, and a driver of real processes.

Nothing here imports the product: what these programs say, they have seen on a socket, a file or a process table.
"""
