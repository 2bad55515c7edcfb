// The registry's client of kafkajs: what it wrote in each format, read again, a line of JSON each.
const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");

const record = { type: "record", namespace: "n", name: "A", fields: [{ name: "x", type: "int" }] };
const schemas = [
  { type: SchemaType.AVRO, schema: JSON.stringify(record) },
  { type: SchemaType.JSON, schema: JSON.stringify({ type: "object", properties: { x: { type: "integer" } } }) },
  { type: SchemaType.PROTOBUF, schema: 'syntax = "proto3"; package n; message P { int32 x = 1; }' },
];

async function main() {
  for (const schema of schemas) {
    const subject = `js-${schema.type}`;
    const writing = new SchemaRegistry({ host: process.argv[2] });
    const { id } = await writing.register(schema, { subject });
    const data = await writing.encode(id, { x: 5 });
    const reading = new SchemaRegistry({ host: process.argv[2] });
    const latest = await reading.getLatestSchemaId(subject);
    console.log(JSON.stringify([schema.type, latest === id, await reading.decode(data)]));
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
