"""Messages in, changes out: Debezium's envelope, read by the table's own columns."""
