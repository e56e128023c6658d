"""scripted: a provider that plays JSON scripts, for tests, examples and demonstrations.

A new field of scripts goes to `script.py` (format and reader), its effect to `scripted.py`. Start reading at
`scripted.py`.
"""
