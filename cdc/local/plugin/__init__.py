"""What Kafka Connect gets from us beside Debezium, in Java: values, names of topics, the driver's intervals."""
