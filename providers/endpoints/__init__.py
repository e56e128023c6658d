"""endpoints: model APIs over HTTP.

One module per API writes requests (`openai.py`), one per stream format reads answers (`openai_stream.py`). All of them
build on `endpoint.py` (sending), `reader.py` (reading), `faults.py` (errors) and `usage.py` (token counts).

A new model API: subclass `Endpoint` and `AnswerReader` (or `EventReader` for server-sent events) in two modules of its
own and add a line to `BUILT_IN_PROVIDERS` in `providers/registry.py`. A new framing of streams gets a parser beside
`sse.py` (server-sent events) and `ndjson.py` (JSON lines). Start reading at `openai.py`.
"""
