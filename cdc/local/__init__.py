"""The real parts (Postgres, Kafka, Kafka Connect with Debezium, OpenSearch) as local processes.

No Docker and no installation: the toolkit fetches the jars and binaries that `fetch/jars.lock.toml` names,
checks them, and starts each part bound to the loopback address, with its state in one hidden folder.
Start reading at `cdc.local.services`.
"""
