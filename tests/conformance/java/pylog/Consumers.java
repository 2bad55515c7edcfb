package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What a consumer of the tests can be told. */
final class Consumers {
    private final KafkaConsumer<byte[], byte[]> consumer;

    Consumers(JsonNode config) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(Values.properties(config), bytes, bytes);
    }

    ConsumerGroupMetadata groupMetadata() {
        return consumer.groupMetadata();
    }

    Object call(String name, JsonNode words) {
        switch (name) {
            case "subscribe": consumer.subscribe(topics(words.get("topics"))); return null;
            case "subscribePattern": consumer.subscribe(Pattern.compile(words.get("pattern").asText())); return null;
            case "assign": assign(words); return null;
            case "assignment": return assignment();
            case "poll": return poll(words.get("millis").asLong());
            case "commit": consumer.commitSync(Values.offsets(words.get("offsets"))); return null;
            case "committed": return committed(Values.partition(words.get("partition")));
            case "watermarks": return watermarks(Values.partition(words.get("partition")));
            case "offsetForTime": return offsetForTime(words);
            case "close": consumer.close(CloseOptions.timeout(Duration.ofSeconds(10))); return null;
            default: throw new IllegalArgumentException(name);
        }
    }

    private static List<String> topics(JsonNode names) {
        List<String> topics = new ArrayList<>();
        names.forEach(name -> topics.add(name.asText()));
        return topics;
    }

    private void assign(JsonNode words) {
        Map<TopicPartition, OffsetAndMetadata> offsets = Values.offsets(words.get("offsets"));
        consumer.assign(offsets.keySet());
        offsets.forEach((partition, found) -> consumer.seek(partition, found.offset()));
    }

    private ArrayNode assignment() {
        ArrayNode rows = Values.array();
        for (TopicPartition partition : consumer.assignment()) {
            rows.add(Values.array().add(partition.topic()).add(partition.partition()));
        }
        return rows;
    }

    private ArrayNode poll(long millis) {
        ArrayNode rows = Values.array();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(millis))) {
            rows.add(Values.row(record));
        }
        return rows;
    }

    private Long committed(TopicPartition partition) {
        OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
        return found == null ? null : found.offset();
    }

    private ArrayNode watermarks(TopicPartition partition) {
        Set<TopicPartition> one = Set.of(partition);
        return Values.array().add(consumer.beginningOffsets(one).get(partition)).add(consumer.endOffsets(one).get(partition));
    }

    private Long offsetForTime(JsonNode words) {
        TopicPartition partition = Values.partition(words.get("partition"));
        Map<TopicPartition, Long> asked = Map.of(partition, words.get("timestamp").asLong());
        OffsetAndTimestamp found = consumer.offsetsForTimes(asked).get(partition);
        return found == null ? null : found.offset();
    }
}
