import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.MessageProperties;
import java.util.concurrent.CountDownLatch;

/**
 * One producer or one consumer of RabbitMQ, by its own client library.
 *
 * produce PORT QUEUE MESSAGES WARM SIZE persistent|transient: no confirms are asked for, nothing is waited for; it ends
 * when the queue, asked on the same channel, says that it holds them all. consume PORT QUEUE MESSAGES WARM: prefetch
 * 1,000, acknowledged 500 at a time; the clock starts at the first message. Both handle WARM messages of another queue
 * first, for the virtual machine to compile. forget PORT QUEUE,QUEUE…: delete them with all they hold.
 */
final class Rabbit {
    private static final int PREFETCH = 1000;
    private static final int ACKNOWLEDGE = 500;

    public static void main(String[] told) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(Integer.parseInt(told[1]));
        String queue = told[2];
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            if (told[0].equals("forget")) {
                for (String one : queue.split(",")) {
                    channel.queueDelete(one);
                }
                return;
            }
            int messages = Integer.parseInt(told[3]);
            int warm = Integer.parseInt(told[4]);
            String other = queue + "-warm";
            boolean producing = told[0].equals("produce");
            byte[] body = new byte[producing ? Integer.parseInt(told[5]) : 200];
            boolean persistent = !producing || told[6].equals("persistent");
            if (warm > 0) {
                produce(channel, other, warm, body, persistent, new Progress(), false);
                consume(connection.createChannel(), other, warm, new Progress(), false);
            }
            if (producing) {
                produce(channel, queue, messages, body, persistent, new Progress(), true);
            } else {
                consume(channel, queue, messages, new Progress(), true);
            }
        }
    }

    private static void produce(
            Channel channel, String queue, int count, byte[] body, boolean persistent, Progress progress, boolean tell)
            throws Exception {
        AMQP.BasicProperties as =
            persistent ? MessageProperties.PERSISTENT_BASIC : MessageProperties.MINIMAL_BASIC;
        channel.queueDeclare(queue, true, false, false, null);
        if (tell) {
            progress.begin();
        }
        for (int sent = 1; sent <= count; sent++) {
            channel.basicPublish("", queue, as, body);
            progress.at(sent);
        }
        // What is asked on a channel is answered after all that was published on it has reached the queue.
        long deadline = System.nanoTime() + 60_000_000_000L;
        long held = channel.messageCount(queue);
        while (held < count) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the queue holds " + held + " of " + count + " messages");
            }
            held = channel.messageCount(queue);
        }
        if (tell) {
            progress.end(count);
        }
    }

    private static void consume(Channel channel, String queue, int count, Progress progress, boolean tell)
            throws Exception {
        CountDownLatch all = new CountDownLatch(1);
        channel.basicQos(PREFETCH);
        channel.basicConsume(queue, false, new DefaultConsumer(channel) {
            private int got;

            @Override
            public void handleDelivery(String tag, Envelope at, AMQP.BasicProperties as, byte[] body)
                    throws java.io.IOException {
                if (++got == 1 && tell) {
                    progress.begin();
                }
                progress.at(got);
                if (got % ACKNOWLEDGE == 0 || got == count) {
                    channel.basicAck(at.getDeliveryTag(), true);
                }
                if (got == count) {
                    all.countDown();
                }
            }
        });
        all.await();
        if (tell) {
            progress.end(count);
        }
        channel.queueDelete(queue);
    }
}
