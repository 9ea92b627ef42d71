"""The problems of the experiments: data sets, streams, architectures and classifiers."""
