package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's authorizer, asked line by line.
 *
 * <p>A line in has the ACLs, the super users, the default, and questions; a line out has the answer to each: true where
 * it is allowed. A question with a null name is one about any resource of the type.
 */
public final class AclJudge {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answers(Values.JSON.readTree(line)));
        }
    }

    private static ArrayNode answers(JsonNode told) throws Exception {
        ArrayNode answers = Values.JSON.createArrayNode();
        try (StandardAuthorizer authorizer = authorizer(told)) {
            for (JsonNode question : told.get("questions")) {
                answers.add(isAllowed(authorizer, question));
            }
        }
        return answers;
    }

    private static StandardAuthorizer authorizer(JsonNode told) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(Map.of(
                StandardAuthorizer.SUPER_USERS_CONFIG, told.get("super_users").asText(),
                StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, told.get("allows").asText()));
        authorizer.completeInitialLoad();
        long number = 0;
        for (JsonNode acl : told.get("acls")) {
            authorizer.addAcl(new Uuid(1, ++number), new StandardAcl(
                    ResourceType.fromCode((byte) acl.get(0).asInt()), acl.get(1).asText(),
                    PatternType.fromCode((byte) acl.get(4).asInt()), acl.get(2).asText(), acl.get(5).asText(),
                    AclOperation.fromCode((byte) acl.get(3).asInt()),
                    AclPermissionType.fromCode((byte) acl.get(6).asInt())));
        }
        return authorizer;
    }

    private static boolean isAllowed(StandardAuthorizer authorizer, JsonNode question) throws Exception {
        Client client = new Client(question.get(0).asText(), InetAddress.getByName(question.get(1).asText()));
        AclOperation operation = AclOperation.fromCode((byte) question.get(2).asInt());
        ResourceType type = ResourceType.fromCode((byte) question.get(3).asInt());
        if (question.get(4).isNull()) {
            return authorizer.authorizeByResourceType(client, operation, type) == AuthorizationResult.ALLOWED;
        }
        ResourcePattern pattern = new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
        Action action = new Action(operation, pattern, 1, true, true);
        return authorizer.authorize(client, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private record Client(String name, InetAddress address) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "SASL";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            int colon = name.indexOf(':');
            return new KafkaPrincipal(name.substring(0, colon), name.substring(colon + 1));
        }

        @Override
        public InetAddress clientAddress() {
            return address;
        }

        @Override
        public int requestType() {
            return 3;
        }

        @Override
        public int requestVersion() {
            return 12;
        }

        @Override
        public String clientId() {
            return "judge";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
