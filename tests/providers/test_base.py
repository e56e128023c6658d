from providers import base, errors, usage


def test_a_provider_of_another_package_finds_all_it_needs_in_the_ports_module() -> None:
    assert base.ProviderError is errors.ProviderError
    assert base.ErrorKind is errors.ErrorKind
    assert base.Usage is usage.Usage
