"""Whether a new version of a schema may stand beside the ones before it.

    levels        which versions have to read which: BACKWARD and the others, and the check by them
    avro          the resolution of a writer's schema with a reader's, as the Avro specification has it
    json_schema   whether one JSON Schema takes all that another one does
    protobuf      fields by their numbers, as they are on the wire; proto_source reads them from source text

Each of avro, json_schema and protobuf gives the faults of one pair: why what the second schema has written cannot be
read by the first. A fault names its field. (Confluent: CompatibilityLevel, CompatibilityChecker)
"""
