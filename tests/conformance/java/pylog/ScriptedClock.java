package pylog;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;

/**
 * The time of a script, and what is due in it: a task without a delay is run at once, one with a delay when the clock
 * passes it. Tasks that come again are left out.
 */
final class ScriptedClock implements Time, Scheduler {
    private final Map<Long, Runnable> tasks = new TreeMap<>();
    private long now;
    private long count;

    ScriptedClock(long now) {
        this.now = now;
    }

    void advance(long ms) {
        now += ms;
        while (!tasks.isEmpty() && tasks.keySet().iterator().next() >> 16 <= now) {
            tasks.remove(tasks.keySet().iterator().next()).run();
        }
    }

    void forgetTasks() {
        tasks.clear();
    }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
        if (periodMs <= 0 && delayMs > 0) {
            tasks.put((now + delayMs << 16) + count++ % (1 << 16), task);
        } else if (periodMs <= 0) {
            task.run();
        }
        return new Scheduled();
    }

    @Override
    public void startup() {}

    @Override
    public void shutdown() {}

    @Override
    public void resizeThreadPool(int size) {}

    @Override
    public long milliseconds() {
        return now;
    }

    @Override
    public long nanoseconds() {
        return now * 1_000_000;
    }

    @Override
    public void sleep(long ms) {
        advance(ms);
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException();
    }

    private static final class Scheduled extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
