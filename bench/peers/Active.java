import java.util.concurrent.CountDownLatch;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQQueue;

/**
 * One producer or one consumer of ActiveMQ, by its own client library.
 *
 * produce PORT QUEUE MESSAGES WARM SIZE: persistent messages, sent without waiting; it ends when a synchronous request on
 * the same connection is answered, which the broker takes up after all that was sent before. consume PORT QUEUE MESSAGES
 * WARM: prefetch 1,000, acknowledged automatically; the clock starts at the first message. Both handle WARM messages of
 * another queue first, for the virtual machine to compile. forget PORT QUEUE,QUEUE…: destroy them with all they hold.
 */
final class Active {
    public static void main(String[] told) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(
            "tcp://127.0.0.1:" + told[1] + "?jms.useAsyncSend=true&jms.alwaysSyncSend=false"
                + "&jms.prefetchPolicy.queuePrefetch=1000&jms.watchTopicAdvisories=false");
        String queue = told[2];
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        try {
            connection.start();
            if (told[0].equals("forget")) {
                for (String one : queue.split(",")) {
                    connection.destroyDestination(new ActiveMQQueue(one));
                }
                return;
            }
            int messages = Integer.parseInt(told[3]);
            int warm = Integer.parseInt(told[4]);
            boolean producing = told[0].equals("produce");
            byte[] body = new byte[producing ? Integer.parseInt(told[5]) : 200];
            String other = queue + "-warm";
            if (warm > 0) {
                produce(connection, other, warm, body, new Progress(), false);
                consume(connection, other, warm, new Progress(), false);
            }
            if (producing) {
                produce(connection, queue, messages, body, new Progress(), true);
            } else {
                consume(connection, queue, messages, new Progress(), true);
            }
        } finally {
            connection.close();
        }
    }

    private static void produce(
            Connection connection, String name, int count, byte[] body, Progress progress, boolean tell)
            throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        if (tell) {
            progress.begin();
        }
        for (int sent = 1; sent <= count; sent++) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(body);
            producer.send(message);
            progress.at(sent);
        }
        session.createConsumer(session.createQueue(name + "-barrier")).close();
        if (tell) {
            progress.end(count);
        }
        session.close();
    }

    private static void consume(Connection connection, String name, int count, Progress progress, boolean tell)
            throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        CountDownLatch all = new CountDownLatch(1);
        int[] got = {0};
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        consumer.setMessageListener(message -> {
            if (++got[0] == 1 && tell) {
                progress.begin();
            }
            progress.at(got[0]);
            if (got[0] == count) {
                all.countDown();
            }
        });
        all.await();
        if (tell) {
            progress.end(count);
        }
        session.close();
    }
}
