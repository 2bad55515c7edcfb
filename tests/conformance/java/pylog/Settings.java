package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** What an administrator can ask besides topics, groups and transactions: users, quotas, features, places, ACLs. */
final class Settings {
    private final Admin admin;

    Settings(Admin admin) {
        this.admin = admin;
    }

    Object call(String name, JsonNode words) throws Exception {
        switch (name) {
            case "users": return users();
            case "setUser": return setUser(words);
            case "deleteUser": return deleteUser(words);
            case "features": return new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()).keySet();
            case "updateFeature": return updateFeature(words);
            case "quotas": return admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size();
            case "setQuota": return setQuota(words);
            case "replicaDirs": return replicaDirs(Values.partition(words.get("partition")), words);
            case "moveReplica": return moveReplica(words);
            case "reassign": return reassign(words);
            case "classicGroup": return classicGroup(words.get("group").asText());
            case "terminateTransaction": admin.forceTerminateTransaction(words.get("id").asText()).result().get(); return null;
            default: return refusedCall(name);
        }
    }

    private Object refusedCall(String name) throws Exception {
        switch (name) {
            case "acls": return admin.describeAcls(AclBindingFilter.ANY).values().get().size();
            case "createAcl": admin.createAcls(List.of(acl())).all().get(); return null;
            case "deleteAcls": admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get(); return null;
            case "createToken": admin.createDelegationToken().delegationToken().get(); return null;
            case "tokens": return admin.describeDelegationToken().delegationTokens().get().size();
            case "renewToken": return admin.renewDelegationToken(new byte[] {1}).expiryTimestamp().get();
            case "expireToken": return admin.expireDelegationToken(new byte[] {1}).expiryTimestamp().get();
            case "unregister": admin.unregisterBroker(77).all().get(); return null;
            case "addVoter":
                admin.addRaftVoter(9, Uuid.ONE_UUID, java.util.Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9))).all().get();
                return null;
            case "removeVoter": admin.removeRaftVoter(9, Uuid.ONE_UUID).all().get(); return null;
            default: throw new IllegalArgumentException(name);
        }
    }

    private ArrayNode users() throws Exception {
        ArrayNode rows = Values.array();
        new TreeMap<>(admin.describeUserScramCredentials().all().get()).forEach((user, found) ->
            found.credentialInfos().forEach(one ->
                rows.add(Values.array().add(user).add(one.mechanism().mechanismName()).add(one.iterations()))));
        return rows;
    }

    private static ScramMechanism mechanism(JsonNode words) {
        return ScramMechanism.fromMechanismName(words.get("mechanism").asText());
    }

    private Object setUser(JsonNode words) throws Exception {
        ScramCredentialInfo info = new ScramCredentialInfo(mechanism(words), words.get("iterations").asInt());
        var change = new UserScramCredentialUpsertion(words.get("user").asText(), info, "secret");
        admin.alterUserScramCredentials(List.of(change)).all().get();
        return null;
    }

    private Object deleteUser(JsonNode words) throws Exception {
        var change = new UserScramCredentialDeletion(words.get("user").asText(), mechanism(words));
        admin.alterUserScramCredentials(List.of(change)).all().get();
        return null;
    }

    private Object updateFeature(JsonNode words) throws Exception {
        short level = (short) words.get("level").asInt();
        FeatureUpdate update = new FeatureUpdate(level, FeatureUpdate.UpgradeType.UPGRADE);
        UpdateFeaturesOptions options = new UpdateFeaturesOptions().validateOnly(words.get("validateOnly").asBoolean());
        admin.updateFeatures(Map.of(words.get("feature").asText(), update), options).all().get();
        return null;
    }

    private Object setQuota(JsonNode words) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, words.get("client").asText()));
        ClientQuotaAlteration.Op change = new ClientQuotaAlteration.Op("producer_byte_rate", words.get("rate").asDouble());
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
        return null;
    }

    private ArrayNode replicaDirs(TopicPartition partition, JsonNode words) throws Exception {
        var replica = new TopicPartitionReplica(partition.topic(), partition.partition(), words.get("broker").asInt());
        var found = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
        return Values.array().add(found.getCurrentReplicaLogDir() != null).add(found.getFutureReplicaLogDir() != null);
    }

    private Object moveReplica(JsonNode words) throws Exception {
        TopicPartition partition = Values.partition(words.get("partition"));
        var replica = new TopicPartitionReplica(partition.topic(), partition.partition(), words.get("broker").asInt());
        admin.alterReplicaLogDirs(Map.of(replica, words.get("path").asText())).all().get();
        return null;
    }

    private Object reassign(JsonNode words) throws Exception {
        Optional<NewPartitionReassignment> target = Optional.empty();
        if (!words.get("brokers").isNull()) {
            List<Integer> brokers = new java.util.ArrayList<>();
            words.get("brokers").forEach(one -> brokers.add(one.asInt()));
            target = Optional.of(new NewPartitionReassignment(brokers));
        }
        admin.alterPartitionReassignments(Map.of(Values.partition(words.get("partition")), target)).all().get();
        return null;
    }

    private ObjectNode classicGroup(String group) throws Exception {
        var found = admin.describeClassicGroups(List.of(group)).all().get().get(group);
        return Values.object().put("state", found.state().toString()).put("members", found.members().size());
    }

    private static AclBinding acl() {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
            new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
    }
}
