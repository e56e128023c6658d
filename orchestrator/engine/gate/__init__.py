"""gate: sends one request: permit, reservation, request, retries, settlement, events. Every request passes it.

Start reading at `gate.py`. Its policies are pure and have a module each: AIMD limiter (`governor.py`), token bucket
(`bucket.py`), circuit breaker (`breaker.py`), retries (`retry.py`), charges (`charge.py`). A new one goes beside them.
"""
