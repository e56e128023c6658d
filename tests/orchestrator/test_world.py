from orchestrator.world import sweep_name


def test_two_hundred_sweeps_of_one_second_have_two_hundred_names() -> None:
    names = [sweep_name(1_796_000_000_000_000 + microsecond) for microsecond in range(200)]
    assert len(set(names)) == 200
    assert {name.rpartition("-")[0] for name in names} == {names[0].rpartition("-")[0]}
