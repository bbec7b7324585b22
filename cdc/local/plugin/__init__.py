"""What Kafka Connect gets from us beside Debezium: one converter, in Java."""
