package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What a producer of the tests can be told. */
final class Producers {
    private final KafkaProducer<byte[], byte[]> producer;

    Producers(JsonNode config) {
        producer = new KafkaProducer<>(Values.properties(config), new ByteArraySerializer(), new ByteArraySerializer());
    }

    Object call(String name, JsonNode words, Main main) throws Exception {
        switch (name) {
            case "send": return send(words);
            case "initTransactions": producer.initTransactions(); return null;
            case "begin": producer.beginTransaction(); return null;
            case "commit": producer.commitTransaction(); return null;
            case "abort": producer.abortTransaction(); return null;
            case "sendOffsets":
                ConsumerGroupMetadata group = main.consumer(words.get("consumer").asInt()).groupMetadata();
                producer.sendOffsetsToTransaction(Values.offsets(words.get("offsets")), group);
                return null;
            case "close": producer.close(Duration.ofSeconds(10)); return null;
            default: throw new IllegalArgumentException(name);
        }
    }

    private ArrayNode send(JsonNode words) throws Exception {
        List<Future<RecordMetadata>> waiting = new ArrayList<>();
        for (JsonNode record : words.get("records")) {
            waiting.add(producer.send(record(words.get("topic").asText(), record)));
        }
        producer.flush();
        ArrayNode sent = Values.array();
        for (Future<RecordMetadata> future : waiting) {
            RecordMetadata metadata = future.get();
            sent.add(Values.array().add(metadata.partition()).add(metadata.hasOffset() ? metadata.offset() : -1));
        }
        return sent;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode row) {
        Integer partition = row.get("partition").isNull() ? null : row.get("partition").asInt();
        Long timestamp = row.get("timestamp").isNull() ? null : row.get("timestamp").asLong();
        byte[] key = Values.bytes(row.get("key"));
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>(topic, partition, timestamp, key, Values.bytes(row.get("value")));
        row.get("headers").forEach(header -> record.headers().add(header.get(0).asText(), Values.bytes(header.get(1))));
        return record;
    }
}
