"""agent: the built-in coding agent, a subject with file tools, a shell, a search and a fetch tool.

It works turn by turn: asks through the gate, runs the tool calls of the answer and answers each of them. All output of
the model is hostile text; none of it makes the agent raise.

A new tool: a module with a `Tool` (its spec, its effect and a function), listed in `TOOLS` in `loop.py`; its processes
and HTTP requests go through `providers/system/`. Start reading at `loop.py`.
"""
