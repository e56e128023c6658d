"""providers.agent: the built-in coding agent.

Works on an assignment turn by turn: asks through the gate, runs the tools the model called, answers every call.
Whatever the model says is hostile text; nothing it can say makes the agent raise. Start reading at `loop.py`.
"""
