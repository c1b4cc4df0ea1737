import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;

/** Tells the bench how far a client has come: a line of JSON at the begin, ten a second, and a last one with its totals. */
final class Progress {
    private final AtomicLong messages = new AtomicLong();
    private long begin;
    private long cpuBefore;
    private Thread ticker;

    void begin() {
        cpuBefore = cpu();
        begin = System.nanoTime();
        say();
        ticker = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(100);
                    say();
                }
            } catch (InterruptedException told) {
                // it is over
            }
        });
        ticker.setDaemon(true);
        ticker.start();
    }

    /** One thread alone counts; a plain write is enough for the other to see it in time. */
    void at(long count) {
        messages.lazySet(count);
    }

    void end(long count) throws InterruptedException {
        long took = System.nanoTime() - begin;
        long used = cpu() - cpuBefore;
        ticker.interrupt();
        ticker.join();
        System.out.println(
            "{\"ns\": " + took + ", \"messages\": " + count + ", \"cpu_ns\": " + used + ", \"done\": true}");
        System.out.flush();
    }

    private void say() {
        System.out.println("{\"ns\": " + (System.nanoTime() - begin) + ", \"messages\": " + messages.get() + "}");
        System.out.flush();
    }

    /** Of all threads of this process, those of the virtual machine included. */
    private static long cpu() {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
    }
}
