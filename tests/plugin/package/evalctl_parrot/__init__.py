"""A provider and a verifier for evalctl, as a package of its own."""
