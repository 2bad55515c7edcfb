package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What a share consumer of the tests can be told. */
final class ShareConsumers {
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    private final Map<Long, ConsumerRecord<byte[], byte[]>> polled = new HashMap<>();

    ShareConsumers(JsonNode config) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        consumer = new KafkaShareConsumer<>(Values.properties(config), bytes, bytes);
    }

    Object call(String name, JsonNode words) {
        switch (name) {
            case "subscribe": consumer.subscribe(topics(words.get("topics"))); return null;
            case "poll": return poll(words.get("millis").asLong());
            case "acknowledge": acknowledge(words.get("offset").asLong(), words.get("type").asText()); return null;
            case "commit": return commit();
            case "close": consumer.close(Duration.ofSeconds(10)); return null;
            default: throw new IllegalArgumentException(name);
        }
    }

    private static List<String> topics(JsonNode names) {
        List<String> topics = new ArrayList<>();
        names.forEach(name -> topics.add(name.asText()));
        return topics;
    }

    private ArrayNode poll(long millis) {
        ArrayNode rows = Values.array();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(millis))) {
            polled.put(record.offset(), record);
            rows.add(Values.array().add(record.offset()).add(record.value()).add(record.deliveryCount().orElse((short) -1)));
        }
        return rows;
    }

    private void acknowledge(long offset, String type) {
        consumer.acknowledge(polled.get(offset), AcknowledgeType.valueOf(type.toUpperCase(Locale.ROOT)));
    }

    private ArrayNode commit() {
        ArrayNode errors = Values.array();
        consumer.commitSync().values().forEach(found -> found.ifPresent(error -> errors.add(error.getClass().getSimpleName())));
        return errors;
    }
}
