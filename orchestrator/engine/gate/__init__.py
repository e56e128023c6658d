"""gate: one request: permit, reservation, request, retries, settlement. Every request of a sweep passes it.

Start reading at `gate.py`.
"""
