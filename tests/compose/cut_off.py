"""Run inside the container of a broker that was cut off: what does it answer to acks=all? The last line is JSON.

    python -c "$(cat cut_off.py)" TOPIC SECONDS

Straight to the broker beside it, by no name: it leads partition 0, or thinks so.
"""

import json
import sys
import time

from kafka_classic.client.connection import Connection
from kafka_classic.client.produce_packed import VERSION, pack_produce, read_produced
from kafka_classic.records.encode import encode_batch
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError

topic, seconds = sys.argv[1], float(sys.argv[2])
deadline = time.monotonic() + seconds
answers: list[str] = []
while time.monotonic() < deadline:
    now = int(time.time() * 1000)
    batch = encode_batch([(None, b"cut-off:%d" % len(answers), (), now)])
    connection = Connection("127.0.0.1", 9092, timeout=8, connect_timeout=8)
    try:
        body = pack_produce({(topic, 0): batch}, -1, 3000)
        (answer,) = connection.send_packed(Api.PRODUCE, VERSION, body, read_produced).result().values()
        answers.append(Error(answer.error).name)
    except KafkaError as error:
        answers.append(type(error).__name__)
    finally:
        connection.close()
print(json.dumps(answers))
