"""endpoints: model APIs over HTTP, one module per API and one per stream format.

What they share is in `endpoint.py` (requests) and `reader.py` (answers). Start reading at `openai.py`.
"""
