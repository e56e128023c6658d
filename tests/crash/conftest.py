"""The command, an endpoint and suites, as the end-to-end tests have them."""

from tests.e2e.conftest import endpoint, evalctl, make_suite

__all__ = ["endpoint", "evalctl", "make_suite"]
