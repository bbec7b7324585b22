"""The ideas of *Designing Data-Intensive Applications* on streams, each as something to watch: `cdc lab`."""
