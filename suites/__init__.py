"""suites: what to run. Bundled suites as data; no code of the product."""
