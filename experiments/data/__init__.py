"""Where experiments get their problems: data sets, streams, architectures, classifiers, and
evaluations made once."""
