package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What an admin client of the tests can be told. */
final class Admins {
    private final Admin admin;

    Admins(JsonNode config) {
        admin = Admin.create(Values.properties(config));
    }

    Object call(String name, JsonNode words) throws Exception {
        switch (name) {
            case "createTopic": return createTopic(words);
            case "deleteTopics": admin.deleteTopics(strings(words.get("topics"))).all().get(); return null;
            case "listTopics": return admin.listTopics().names().get();
            case "describeTopic": return describeTopic(words.get("topic").asText());
            case "createPartitions": return createPartitions(words);
            case "describeConfigs": return describeConfigs(words);
            case "alterConfigs": return alterConfigs(words);
            case "listConfigResources": return listConfigResources(words);
            case "deleteRecords": return deleteRecords(words);
            case "listOffsets": return listOffsets(words);
            case "describeCluster": return describeCluster();
            case "describeLogDirs": return describeLogDirs();
            case "electLeaders": return electLeaders(words);
            case "reassignments": return admin.listPartitionReassignments().reassignments().get().size();
            case "quorum": return admin.describeMetadataQuorum().quorumInfo().get().leaderId();
            case "close": admin.close(); return null;
            default: return groupCall(name, words);
        }
    }

    private Object groupCall(String name, JsonNode words) throws Exception {
        switch (name) {
            case "listGroups": return listGroups();
            case "describeGroup": return describeGroup(words.get("group").asText());
            case "deleteGroups": admin.deleteConsumerGroups(strings(words.get("groups"))).all().get(); return null;
            case "groupOffsets": return groupOffsets(words.get("group").asText());
            case "alterGroupOffsets":
                admin.alterConsumerGroupOffsets(words.get("group").asText(), Values.offsets(words.get("offsets"))).all().get();
                return null;
            case "deleteGroupOffsets":
                admin.deleteConsumerGroupOffsets(words.get("group").asText(), partitions(words.get("partitions"))).all().get();
                return null;
            case "removeMembers": return removeMembers(words);
            case "listTransactions": return listTransactions();
            case "describeTransaction": return describeTransaction(words.get("transactionalId").asText());
            case "describeProducers": return describeProducers(Values.partition(words.get("partition")));
            case "abortTransaction": return abortTransaction(words);
            case "fenceProducers": admin.fenceProducers(strings(words.get("ids"))).all().get(); return null;
            default: return new Settings(admin).call(name, words);
        }
    }

    private static Set<String> strings(JsonNode names) {
        Set<String> strings = new HashSet<>();
        names.forEach(name -> strings.add(name.asText()));
        return strings;
    }

    private static Set<TopicPartition> partitions(JsonNode rows) {
        Set<TopicPartition> partitions = new HashSet<>();
        rows.forEach(row -> partitions.add(Values.partition(row)));
        return partitions;
    }

    private Object createTopic(JsonNode words) throws Exception {
        Map<String, String> configs = new HashMap<>();
        words.get("config").fields().forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        Optional<Integer> count = Optional.of(words.get("partitions").asInt()).filter(number -> number != -1);
        NewTopic topic = new NewTopic(words.get("topic").asText(), count, Optional.<Short>empty()).configs(configs);
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(words.get("validateOnly").asBoolean());
        admin.createTopics(List.of(topic), options).all().get();
        return null;
    }

    private ObjectNode describeTopic(String name) throws Exception {
        var found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        ObjectNode topic = Values.object().put("internal", found.isInternal()).put("id", found.topicId().toString());
        ArrayNode partitions = topic.putArray("partitions");
        found.partitions().forEach(one -> partitions.add(
            Values.array().add(one.partition()).add(one.leader().id()).add(one.replicas().size()).add(one.isr().size())));
        return topic;
    }

    private Object createPartitions(JsonNode words) throws Exception {
        NewPartitions count = NewPartitions.increaseTo(words.get("count").asInt());
        admin.createPartitions(Map.of(words.get("topic").asText(), count)).all().get();
        return null;
    }

    private static ConfigResource resource(JsonNode words) {
        return new ConfigResource(ConfigResource.Type.valueOf(words.get("type").asText()), words.get("name").asText());
    }

    private ObjectNode describeConfigs(JsonNode words) throws Exception {
        ConfigResource resource = resource(words);
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
        Config config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
        ObjectNode entries = Values.object();
        for (ConfigEntry entry : config.entries()) {
            entries.putArray(entry.name()).add(entry.value()).add(entry.source().name()).add(entry.isReadOnly())
                .add(entry.isSensitive()).add(entry.synonyms().size());
        }
        return entries;
    }

    /** Rows of operation, name, value. */
    private Object alterConfigs(JsonNode words) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        for (JsonNode row : words.get("changes")) {
            ConfigEntry entry = new ConfigEntry(row.get(1).asText(), row.get(2).isNull() ? null : row.get(2).asText());
            changes.add(new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(row.get(0).asText())));
        }
        AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(words.get("validateOnly").asBoolean());
        admin.incrementalAlterConfigs(Map.of(resource(words), changes), options).all().get();
        return null;
    }

    private ArrayNode listConfigResources(JsonNode words) throws Exception {
        ArrayNode names = Values.array();
        Set<ConfigResource.Type> types = Set.of(ConfigResource.Type.valueOf(words.get("type").asText()));
        admin.listConfigResources(types, new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get()
            .forEach(found -> names.add(found.name()));
        return names;
    }

    private Object deleteRecords(JsonNode words) throws Exception {
        TopicPartition partition = Values.partition(words.get("partition"));
        RecordsToDelete before = RecordsToDelete.beforeOffset(words.get("before").asLong());
        return admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
    }

    private ArrayNode listOffsets(JsonNode words) throws Exception {
        TopicPartition partition = Values.partition(words.get("partition"));
        ArrayNode offsets = Values.array();
        for (JsonNode asked : words.get("specs")) {
            var found = admin.listOffsets(Map.of(partition, spec(asked))).partitionResult(partition).get();
            offsets.add(found.offset());
        }
        return offsets;
    }

    private static OffsetSpec spec(JsonNode asked) {
        switch (asked.asText()) {
            case "earliest": return OffsetSpec.earliest();
            case "latest": return OffsetSpec.latest();
            case "maxTimestamp": return OffsetSpec.maxTimestamp();
            case "earliestLocal": return OffsetSpec.earliestLocal();
            case "latestTiered": return OffsetSpec.latestTiered();
            default: return OffsetSpec.forTimestamp(asked.asLong());
        }
    }

    private ObjectNode describeCluster() throws Exception {
        var found = admin.describeCluster();
        return Values.object().put("clusterId", found.clusterId().get()).put("nodes", found.nodes().get().size())
            .put("controller", found.controller().get().id());
    }

    private ArrayNode describeLogDirs() throws Exception {
        ArrayNode rows = Values.array();
        var nodes = new ArrayList<Integer>();
        admin.describeCluster().nodes().get().forEach(node -> nodes.add(node.id()));
        admin.describeLogDirs(nodes).allDescriptions().get().values().forEach(paths -> paths.values().forEach(path ->
            path.replicaInfos().forEach((partition, info) -> rows.add(
                Values.array().add(partition.topic()).add(partition.partition()).add(info.size()).add(info.isFuture())))));
        return rows;
    }

    private Object electLeaders(JsonNode words) throws Exception {
        TopicPartition partition = Values.partition(words.get("partition"));
        var found = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition);
        if (found.isPresent()) {
            throw (Exception) found.get();
        }
        return null;
    }

    private ArrayNode listGroups() throws Exception {
        ArrayNode rows = Values.array();
        admin.listGroups().all().get().forEach(group -> rows.add(Values.array().add(group.groupId())
            .add(group.type().map(Object::toString).orElse(null)).add(group.groupState().map(Object::toString).orElse(null))));
        return rows;
    }

    private ObjectNode describeGroup(String name) throws Exception {
        var found = admin.describeConsumerGroups(List.of(name)).all().get().get(name);
        ObjectNode group = Values.object().put("state", found.groupState().toString())
            .put("type", found.type().toString()).put("assignor", found.partitionAssignor());
        ArrayNode members = group.putArray("members");
        found.members().forEach(member -> members.add(Values.array().add(member.consumerId()).add(member.clientId())
            .add(member.groupInstanceId().orElse(null)).add(member.assignment().topicPartitions().size())));
        return group;
    }

    private ArrayNode groupOffsets(String name) throws Exception {
        ArrayNode rows = Values.array();
        Map<TopicPartition, OffsetAndMetadata> found =
            admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
        found.forEach((partition, offset) -> rows.add(
            Values.array().add(partition.topic()).add(partition.partition()).add(offset == null ? null : offset.offset())));
        return rows;
    }

    private Object removeMembers(JsonNode words) throws Exception {
        List<MemberToRemove> members = new ArrayList<>();
        words.get("instances").forEach(name -> members.add(new MemberToRemove(name.asText())));
        var options = members.isEmpty()
            ? new RemoveMembersFromConsumerGroupOptions() : new RemoveMembersFromConsumerGroupOptions(members);
        KafkaFuture<Void> done = admin.removeMembersFromConsumerGroup(words.get("group").asText(), options).all();
        return done.get();
    }

    private ArrayNode listTransactions() throws Exception {
        ArrayNode rows = Values.array();
        admin.listTransactions().all().get().forEach(found -> rows.add(
            Values.array().add(found.transactionalId()).add(found.state().toString())));
        return rows;
    }

    private ObjectNode describeTransaction(String name) throws Exception {
        TransactionDescription found = admin.describeTransactions(List.of(name)).description(name).get();
        ObjectNode row = Values.object().put("state", found.state().toString())
            .put("timeout", found.transactionTimeoutMs()).put("epoch", found.producerEpoch());
        ArrayNode partitions = row.putArray("partitions");
        found.topicPartitions().forEach(one -> partitions.add(Values.array().add(one.topic()).add(one.partition())));
        return row;
    }

    private ArrayNode describeProducers(TopicPartition partition) throws Exception {
        ArrayNode rows = Values.array();
        admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().forEach(found ->
            rows.add(Values.array().add(found.producerId()).add(found.producerEpoch()).add(found.lastSequence())
                .add(found.currentTransactionStartOffset().isPresent())));
        return rows;
    }

    private Object abortTransaction(JsonNode words) throws Exception {
        TopicPartition partition = Values.partition(words.get("partition"));
        long producerId = words.get("producerId").asLong();
        short epoch = (short) words.get("epoch").asInt();
        admin.abortTransaction(new AbortTransactionSpec(partition, producerId, epoch, 0)).all().get();
        return null;
    }
}
