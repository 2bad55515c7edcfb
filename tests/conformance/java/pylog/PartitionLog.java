package pylog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.UnexpectedAppendOffsetException;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's log of one partition, told what to do line by line.
 *
 * <p>A line in begins a script (dir, config, topic_id, transaction_verification), or is an operation of it. A line out
 * is the same operation with Kafka's result or error, the state of the log and the names in its folder, in the form of
 * storage.json.gz that tests/oracle/scripts.py reads. "broken" marks an error that no request is answered with: the log
 * is of no use from there on.
 */
public final class PartitionLog {
    private static final long BEGINNING = 1_700_000_000_000L;
    private static final int EXPIRATION_MS = 86_400_000;
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;
    private static final BrokerTopicStats STATS = new BrokerTopicStats();

    private final ScriptedClock clock = new ScriptedClock(BEGINNING);
    private final JsonNode script;
    private final File directory;
    private UnifiedLog log;
    private VerificationGuard guard = VerificationGuard.SENTINEL;

    private PartitionLog(JsonNode script, Path parent) {
        this.script = script;
        this.directory = parent.resolve(script.get("dir").asText()).toFile();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Path parent = Path.of(args[0]);
        PartitionLog partition = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode words = (ObjectNode) Values.JSON.readTree(line);
            if (words.has("dir")) {
                partition = new PartitionLog(words, Files.createTempDirectory(parent, "script"));
            } else {
                partition.answer(words);
                out.println(Values.JSON.writeValueAsString(words));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer(ObjectNode op) throws Exception {
        try {
            op.set("result", Values.JSON.valueToTree(step(op)));
        } catch (Exception error) {
            op.put("error", error.getClass().getSimpleName());
            op.put("message", String.valueOf(error.getMessage()));
            boolean isAnswer = error instanceof ApiException || error instanceof RecordValidationException
                || error instanceof UnexpectedAppendOffsetException;
            op.put("broken", log == null || !isAnswer);
        }
        if (log != null) {
            op.set("state", state());
        }
        op.set("folder", folder());
    }

    private Object step(JsonNode op) throws Exception {
        switch (op.get("op").asText()) {
            case "open": return open(op);
            case "close": close(); return files();
            case "abandon": abandon(); return null;
            case "tamper": tamper(op); return null;
            case "append_as_leader": return appendAsLeader(op);
            case "append_as_follower":
                return appended(log.appendAsFollower(records(op), op.get("leader_epoch").asInt()));
            case "maybe_start_transaction_verification": return verify(op);
            case "assign_epoch_start_offset":
                log.assignEpochStartOffset(op.get("epoch").asInt(), op.get("offset").asLong());
                return epochs();
            case "update_high_watermark": return log.updateHighWatermark(op.get("offset").asLong());
            case "read": return read(op);
            case "roll": return log.roll().baseOffset();
            case "delete_old_segments": return log.deleteOldSegments();
            case "truncate_to": return log.truncateTo(op.get("offset").asLong());
            case "truncate_fully_and_start_at":
                log.truncateFullyAndStartAt(op.get("offset").asLong(), Optional.empty());
                return null;
            case "maybe_increment_log_start_offset":
                return log.maybeIncrementLogStartOffset(
                    op.get("offset").asLong(), LogStartOffsetIncrementReason.ClientRecordDeletion);
            case "flush": log.flush(op.get("force_active_segment").asBoolean()); return log.recoveryPoint();
            case "advance_clock": clock.advance(op.get("ms").asLong()); return clock.milliseconds();
            case "producers": return producers();
            case "remove_expired_producers": log.removeExpiredProducers(op.get("now").asLong()); return producers();
            case "collect_aborted_transactions":
                ArrayNode aborted = Values.array();
                log.collectAbortedTransactions(op.get("start").asLong(), op.get("upper").asLong()).forEach(txn ->
                    aborted.add(Values.array().add(txn.producerId()).add(txn.firstOffset()).add(txn.lastOffset())
                        .add(txn.lastStableOffset())));
                return aborted;
            case "leader_epochs": return epochs();
            case "segments": return segments();
            default: throw new IllegalStateException(op.toString());
        }
    }

    // --- opening and closing ---

    private Object open(JsonNode op) throws Exception {
        boolean isNew = directory.mkdirs();
        log = UnifiedLog.create(
            directory, config(), op.get("log_start_offset").asLong(), op.get("recovery_point").asLong(), clock, STATS,
            clock, TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(EXPIRATION_MS, script.get("transaction_verification").asBoolean()), 600_000,
            new LogDirFailureChannel(1), op.get("clean_shutdown").asBoolean(),
            Optional.of(Uuid.fromString(script.get("topic_id").asText())));
        if (isNew) {
            return null;
        }
        ObjectNode found = Values.object();
        found.put("recovery_point", log.recoveryPoint());
        found.set("epochs", epochs());
        found.set("producers", producers());
        found.set("segments", segments());
        return found;
    }

    private LogConfig config() {
        Properties properties = Values.properties(script.get("config"));
        properties.put("internal.segment.bytes", properties.remove("segment.bytes"));
        return new LogConfig(properties);
    }

    private void close() throws Exception {
        makeIndexes();
        log.close();
        log = null;
        clock.forgetTasks();
    }

    /** Leave the files as a process that is killed does. */
    private void abandon() throws Exception {
        makeIndexes();
        log.closeHandlers();
        log = null;
        clock.forgetTasks();
    }

    /** Make the indexes of a segment that nothing was appended to: Kafka leaves them out, and then reads it anew. */
    private void makeIndexes() throws Exception {
        for (LogSegment segment : log.logSegments()) {
            segment.offsetIndex();
            segment.timeIndex();
        }
    }

    private void tamper(JsonNode op) throws Exception {
        Path file = directory.toPath().resolve(op.get("file").asText());
        switch (op.get("action").asText()) {
            case "delete": Files.deleteIfExists(file); return;
            case "create": Files.write(file, HexFormat.of().parseHex(op.get("bytes").asText())); return;
            case "append":
                Files.write(file, HexFormat.of().parseHex(op.get("bytes").asText()), StandardOpenOption.APPEND);
                return;
            case "truncate":
                byte[] whole = Files.readAllBytes(file);
                Files.write(file, Arrays.copyOf(whole, op.get("size").asInt()));
                return;
            case "rename":
                Files.move(file, file.resolveSibling(op.get("to").asText()), StandardCopyOption.REPLACE_EXISTING);
                return;
            default: throw new IllegalStateException(op.toString());
        }
    }

    // --- what comes in, and what is read ---

    private static MemoryRecords records(JsonNode op) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(op.get("records").asText())));
    }

    private Object appendAsLeader(JsonNode op) {
        boolean isGuarded = op.path("guard").asText().equals("last");
        return appended(log.appendAsLeader(
            records(op), op.get("leader_epoch").asInt(), AppendOrigin.valueOf(op.get("origin").asText()),
            RequestLocal.noCaching(), isGuarded ? guard : VerificationGuard.SENTINEL,
            (short) op.get("transaction_version").asInt()));
    }

    private static Object appended(LogAppendInfo info) {
        ObjectNode result = Values.object();
        result.put("first_offset", info.firstOffset()).put("last_offset", info.lastOffset());
        result.put("max_timestamp", info.maxTimestamp()).put("log_append_time", info.logAppendTime());
        result.put("log_start_offset", info.logStartOffset()).put("valid_bytes", info.validBytes());
        result.put("num_messages", info.numMessages());
        result.set("last_leader_epoch", Values.JSON.valueToTree(info.lastLeaderEpoch().orElse(null)));
        return result;
    }

    private Object verify(JsonNode op) {
        VerificationGuard given = log.maybeStartTransactionVerification(
            op.get("producer_id").asLong(), op.get("sequence").asInt(), (short) op.get("producer_epoch").asInt(),
            op.get("supports_epoch_bump").asBoolean());
        if (given == VerificationGuard.SENTINEL) {
            return "sentinel";
        }
        guard = given;
        return "new";
    }

    private Object read(JsonNode op) throws Exception {
        FetchDataInfo info = log.read(
            op.get("offset").asLong(), op.get("max_length").asInt(),
            FetchIsolation.valueOf(op.get("isolation").asText()), op.get("min_one_message").asBoolean());
        ObjectNode result = Values.object();
        ArrayNode batches = result.putArray("batches");
        for (RecordBatch batch : info.records.batches()) {
            batches.add(Values.array().add(batch.baseOffset()).add(batch.lastOffset()));
        }
        result.put("first_entry_incomplete", info.firstEntryIncomplete);
        result.putNull("aborted");
        info.abortedTransactions.ifPresent(found -> {
            ArrayNode aborted = result.putArray("aborted");
            found.forEach(txn -> aborted.add(Values.array().add(txn.producerId()).add(txn.firstOffset())));
        });
        return result;
    }

    // --- what is known ---

    private JsonNode state() {
        ArrayNode state = Values.array().add(log.logStartOffset()).add(log.highWatermark())
            .add(log.lastStableOffset()).add(log.logEndOffset()).add(log.size());
        log.latestEpoch().ifPresentOrElse(state::add, state::addNull);
        ArrayNode bases = state.addArray();
        log.logSegments().forEach(segment -> bases.add(segment.baseOffset()));
        return state;
    }

    private ArrayNode epochs() {
        ArrayNode epochs = Values.array();
        LeaderEpochFileCache cache = log.leaderEpochCache();
        cache.epochEntries().forEach(entry -> epochs.addArray().add(entry.epoch()).add(entry.startOffset()));
        return epochs;
    }

    private ArrayNode segments() throws Exception {
        ArrayNode segments = Values.array();
        for (LogSegment segment : log.logSegments()) {
            segments.addObject().put("base", segment.baseOffset()).put("size", segment.size())
                .put("offset_entries", segment.offsetIndex().entries())
                .put("time_entries", segment.timeIndex().entries())
                .put("max_timestamp", segment.readMaxTimestampAndOffsetSoFar().indexKey())
                .put("max_timestamp_offset", segment.readMaxTimestampAndOffsetSoFar().indexValue());
        }
        return segments;
    }

    private ObjectNode producers() {
        ObjectNode producers = Values.object();
        new TreeMap<>(log.producerStateManager().activeProducers()).forEach((id, entry) -> {
            ObjectNode producer = producers.putObject(String.valueOf(id));
            producer.put("epoch", entry.producerEpoch()).put("coordinator_epoch", entry.coordinatorEpoch());
            producer.put("last_timestamp", entry.lastTimestamp()).putNull("current_txn_first_offset");
            entry.currentTxnFirstOffset().ifPresent(first -> producer.put("current_txn_first_offset", first));
            ArrayNode batches = producer.putArray("batches");
            entry.batchMetadata().forEach(batch -> batches.addArray().add(firstSequence(batch)).add(batch.lastSeq())
                .add(batch.firstOffset()).add(batch.lastOffset()).add(batch.timestamp()));
        });
        return producers;
    }

    /** A batch without sequences has -1 for both; Kafka counts the first one back from the last, to no purpose. */
    private static int firstSequence(BatchMetadata batch) {
        return batch.lastSeq() < 0 ? -1 : batch.firstSeq();
    }

    /** The names in the folder, with the bytes of producer snapshots. */
    private ObjectNode folder() throws Exception {
        ObjectNode folder = Values.object();
        for (String name : names()) {
            folder.put(name, name.endsWith(".snapshot") ? hex(name) : null);
        }
        return folder;
    }

    private ObjectNode files() throws Exception {
        ObjectNode files = Values.object();
        for (String name : names()) {
            byte[] data = Files.readAllBytes(directory.toPath().resolve(name));
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(data);
            ObjectNode file = files.putObject(name).put("size", data.length);
            file.put("sha256", HexFormat.of().formatHex(digest));
            if (!name.endsWith(".log")) {
                file.put("hex", HexFormat.of().formatHex(data));
            }
        }
        return files;
    }

    private String hex(String name) throws Exception {
        return HexFormat.of().formatHex(Files.readAllBytes(directory.toPath().resolve(name)));
    }

    private String[] names() {
        String[] names = directory.list();
        Arrays.sort(names);
        return names;
    }
}
