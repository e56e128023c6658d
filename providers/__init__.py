"""providers: who answers.

Model endpoints, the built-in agent, scripts, recordings, prices, and the two edges to the outside: `http.py` (the one
HTTP module) and `process.py` (the one subprocess helper). A provider asks once: it never retries, sleeps or counts
money; the orchestrator's gate does. Knows the store's words, never its SQL. Start reading at `base.py`.
"""
