"""The verb `verify`: run the verifiers again on the stored workspaces of a sweep."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.common import COMMON, print_data, print_json, print_notice


def verify(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="A sweep's name, a unique prefix, or `last`.")] = "last",
    tasks: Annotated[str | None, typer.Option("--tasks", metavar="ID,ID", help="Verify only these tasks.")] = None,
) -> None:
    """Run the current verifiers of SWEEP's suite on the stored workspaces of its runs.

    Use it after you corrected a verifier. No model is called. Old results stay; new ones are added after them.
    """
    from functools import partial

    import anyio

    from orchestrator.cli.sweep_setup import store_of
    from orchestrator.kinds import refuse_unreadable
    from orchestrator.suite.reverify import verify_sweep
    from orchestrator.world import hide_environment, real_world

    hide_environment()
    world = real_world()
    check = partial(refuse_unreadable, verb="verify")
    verified = anyio.run(
        partial(verify_sweep, store_of(world), sweep, options.split_names(tasks), world, print_notice, check=check)
    )
    if COMMON.json:
        print_json({"schema": "evalctl.verify/1", **verified.to_json()})
    else:
        for line in verified.list_result_lines():
            print_data(line)
