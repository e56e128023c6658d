"""lab: the verbs `evalctl lab ...` and `evalctl hub ...`, one module each."""
