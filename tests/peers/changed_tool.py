"""Runs the command with one word changed in a tool's description, as after a change of the code:
`python -m tests.peers.changed_tool TOOL ARGUMENTS`.
"""

from __future__ import annotations

import sys

import attrs

if __name__ == "__main__":
    from orchestrator.cli.main import main
    from providers.agent import loop

    name = sys.argv.pop(1)
    loop.TOOLS = tuple(
        attrs.evolve(tool, spec=attrs.evolve(tool.spec, description=f"Really: {tool.spec.description}"))
        if tool.name == name
        else tool
        for tool in loop.TOOLS
    )
    main()
