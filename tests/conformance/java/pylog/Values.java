package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** JSON values of the tests, as Kafka's classes and back. Bytes are base64, null stays null. */
final class Values {
    static final ObjectMapper JSON = new ObjectMapper();

    private Values() {}

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static Properties properties(JsonNode config) {
        Properties properties = new Properties();
        config.fields().forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        return properties;
    }

    static TopicPartition partition(JsonNode node) {
        return new TopicPartition(node.get(0).asText(), node.get(1).asInt());
    }

    /** Rows of topic, partition, offset. */
    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode rows) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        rows.forEach(row -> offsets.put(partition(row), new OffsetAndMetadata(row.get(2).asLong())));
        return offsets;
    }

    static ArrayNode array() {
        return JSON.createArrayNode();
    }

    static ObjectNode object() {
        return JSON.createObjectNode();
    }

    /** A record as a row: topic, partition, offset, timestamp, key, value, headers. */
    static ArrayNode row(ConsumerRecord<byte[], byte[]> record) {
        ArrayNode headers = array();
        for (Header header : record.headers()) {
            headers.add(array().add(header.key()).add(text(header.value())));
        }
        return array().add(record.topic()).add(record.partition()).add(record.offset()).add(record.timestamp())
            .add(text(record.key())).add(text(record.value())).add(headers);
    }
}
