"""A program that uses Kafka through confluent-kafka, and its tests, which need no Kafka: see `test_billing`."""
