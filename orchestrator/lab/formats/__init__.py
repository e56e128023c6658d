"""formats: readers of `lab.yaml`, fixtures, flows and the daemon configuration: one reader per file format.

Start reading at `lab_yaml.py`.
"""
