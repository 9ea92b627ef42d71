"""The problems of the experiments: data sets, streams, architectures, classifiers, and a table of
expensive evaluations."""
