"""Decodes messages of change topics: Debezium's envelope, by the table's own columns."""
