"""formats: the readers of a lab's files, one per format: `lab.yaml`, fixtures, the daemon configuration.

`flow_rules.py` and `flow_graph.py` check the flows of the daemon configuration. Start reading at `lab_yaml.py`. A new
key goes to the `...File` class of its format and to the table in docs/decision-labs.md.
"""
