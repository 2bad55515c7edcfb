package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Kafka's Java clients, told what to do line by line.
 *
 * <p>A line in is {"on": number of an object, "call": name, ...words}; "call" may be "producer", "consumer",
 * "shareConsumer" or "admin", which make one under that number. A line out is {"value": ...} or {"error": Kafka's name, "message": ...}.
 */
public final class Main {
    private final Map<Integer, Producers> producers = new HashMap<>();
    private final Map<Integer, Consumers> consumers = new HashMap<>();
    private final Map<Integer, ShareConsumers> shareConsumers = new HashMap<>();
    private final Map<Integer, Admins> admins = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Main main = new Main();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Values.JSON.writeValueAsString(main.answer(Values.JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);
    }

    Consumers consumer(int number) {
        return consumers.get(number);
    }

    private ObjectNode answer(JsonNode words) {
        ObjectNode answer = Values.object();
        try {
            answer.set("value", Values.JSON.valueToTree(call(words)));
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            answer.put("error", Errors.forException(cause).name());
            answer.put("message", cause.toString());
        }
        return answer;
    }

    private Object call(JsonNode words) throws Exception {
        int number = words.get("on").asInt();
        String name = words.get("call").asText();
        switch (name) {
            case "producer": producers.put(number, new Producers(words.get("config"))); return null;
            case "consumer": consumers.put(number, new Consumers(words.get("config"))); return null;
            case "shareConsumer": shareConsumers.put(number, new ShareConsumers(words.get("config"))); return null;
            case "admin": admins.put(number, new Admins(words.get("config"))); return null;
            default:
        }
        if (producers.containsKey(number)) {
            return producers.get(number).call(name, words, this);
        }
        if (consumers.containsKey(number)) {
            return consumers.get(number).call(name, words);
        }
        if (shareConsumers.containsKey(number)) {
            return shareConsumers.get(number).call(name, words);
        }
        return admins.get(number).call(name, words);
    }
}
