from orchestrator.engine.progress import Progress
from store.records import OutcomeCount
from store.rows import Ending, Outcome
from tests.orchestrator.engine.plain_ports import claim


def tally(outcome: Outcome, count: int, *, reason: str | None = None, again: bool = False) -> OutcomeCount:
    return OutcomeCount(outcome=outcome, reason=reason, judged=not again, again=again, count=count)


def ending(outcome: Outcome, reason: str | None = None) -> Ending:
    return Ending(claim=claim(1), outcome=outcome, reason=reason, judged=True, again=False, ended_at=0)


def test_a_sweep_that_goes_on_counts_from_where_it_stood() -> None:
    progress = Progress(
        planned=200,
        before=[
            tally("pass", 40),
            tally("fail", 5, reason="verifier"),
            tally("skipped", 9, reason="budget", again=True),
        ],
        now=lambda: 0.0,
    )
    progress.count_acknowledged(ending("pass"), True)
    assert progress.progress_line().startswith("46/200 done, 5 fail, 41 pass, 0 in flight")


def test_a_result_that_does_not_count_is_no_progress() -> None:
    progress = Progress(planned=2, before=(), now=lambda: 0.0)
    progress.count_acknowledged(ending("pass"), False)
    assert progress.progress_line().startswith("0/2 done, 0 in flight")
