"""What holds for every test."""

from hypothesis import HealthCheck, settings

# How fast a machine draws examples, and how busy it is, says nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
