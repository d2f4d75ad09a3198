# Sinks at Kafka, read by Confluent's client: CloudEvents with the intent as their key, in the partition that its own producer chooses.

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path

import httpx
import noida_db
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from conform_kit import free_port
from conftest import AGENTS, OPERATORS, serving
from kit import eventually

TOPIC = "entente-events"
PARTITIONS = 5
LIMIT = 60.0


@contextlib.contextmanager
def broker(home):
    """Runs a broker and yields its address."""
    port = free_port()
    program = Path(noida_db.__file__).with_name("noida-db")
    words = [program, "start", "--data-dir", home / "kafka", "--only", "kafka", "--kafka-port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            # A client that is refused waits for seconds before it connects again.
            eventually(lambda: accepts(port), "a broker that listens")
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def accepts(port):
    """Returns whether somebody accepts connections at the port."""
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def consumed(address, count):
    """Returns the records of the topic, once there are so many; checks their sums."""
    settings = {"bootstrap.servers": address, "group.id": "look", "auto.offset.reset": "earliest", "check.crcs": True}
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    records, until = [], time.monotonic() + LIMIT
    while len(records) < count:
        assert time.monotonic() < until, f"{len(records)} of {count} records"
        record = consumer.poll(0.5)
        if record is not None:
            assert record.error() is None, record.error()
            records.append(record)
    # Nothing is there twice.
    assert consumer.poll(1.0) is None
    consumer.close()
    return records


def test_confluents_client_reads_what_is_published(tmp_path):
    with broker(tmp_path) as address:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(LIMIT)
        sinks = tmp_path / "sinks.json"
        sinks.write_text(json.dumps({"sinks": [{"name": "kafka", "url": f"kafka://{address}", "prefix": "entente-"}]}))
        with serving(ENTENTE_SINKS_FILE=str(sinks)) as url:
            operator = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": OPERATORS[url]})
            ada = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": AGENTS["agent.ada"]})
            asked = {"subscriber_id": "agent.ada", "sink": "kafka", "topic": TOPIC, "event_types": ["channel_message"]}
            operator.post("/subscriptions", json=asked).raise_for_status()
            sent = {}
            for _ in range(8):
                intent = ada.post("/intents", json={"title": "talk"}).raise_for_status().json()["id"]
                channel = ada.post(f"/intents/{intent}/channels", json={"name": "talk"}).raise_for_status().json()["id"]
                for n in range(6):
                    body = {"sender": "agent.ada", "payload": {"n": n}}
                    ada.post(f"/channels/{channel}/messages", json=body).raise_for_status()
                sent[intent] = list(range(6))
            records = consumed(address, 48)
        found, partitions = {}, {}
        for record in records:
            intent, event, headers = record.key().decode(), json.loads(record.value()), dict(record.headers())
            found.setdefault(intent, []).append(event["data"]["payload"]["n"])
            partitions.setdefault(intent, set()).add(record.partition())
            assert headers["content-type"] == b"application/cloudevents+json; charset=utf-8"
            assert headers["ce_id"].decode() == event["id"] and headers["ce_type"] == b"channel_message"
        assert found == sent
        # Confluent's own producer, with the partitioner of Kafka's clients in Java, chooses the same partitions.
        producer, chosen = Producer({"bootstrap.servers": address, "partitioner": "murmur2"}), {}
        for intent in sent:

            def note(error, message, intent=intent):
                assert error is None
                chosen[intent] = {message.partition()}

            producer.produce(TOPIC, key=intent, value=b"-", on_delivery=note)
        assert producer.flush(LIMIT) == 0
        assert chosen == partitions
