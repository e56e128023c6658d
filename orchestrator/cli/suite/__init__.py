"""suite: the verbs that run, record, verify and export agent suites, one module each."""
