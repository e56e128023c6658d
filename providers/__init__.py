"""providers: model endpoints, the built-in agent, decision flows, scripts and recordings behind two ports.

`base.py` defines the ports and their value types, `registry.py` opens a provider by its name, `contract.py` checks one.
A provider sends a request once: retries, waiting and money are the business of the orchestrator's gate. The package may
import the value types of `store`, never its SQL.

A new model API goes to `endpoints/` (docs/adding-a-provider.md shows it as a plug-in), a new tool of the agent to
`agent/`, a new kind of decision node to `decisions/`, a new access to the outside world to `system/`. Start reading at
`base.py`.
"""
