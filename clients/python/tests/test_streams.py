# Streams and the inbox of our own Python client: nothing is left out and nothing comes twice, whatever happens to the connection.

import itertools
import threading

import pytest
from entente import NotFoundError


def numbers(stream, count):
    """Returns what the next messages of a stream carry."""
    return [event.data["payload"]["n"] for event in itertools.islice(stream, count)]


def test_a_stream_has_what_happens_once_it_is_entered(ada, talk):
    with ada.stream(channel_id=talk.id) as stream:
        talk.notify(None, {"n": 1})
        event = next(stream)
    assert event.message.payload == {"n": 1}
    assert event.type == "channel_message"
    assert event.data["channel_name"] == "talk"


def test_broken_connections_neither_lose_nor_repeat(join, proxy, talk):
    ada = join("agent.ada", proxy.url)
    with ada.stream(channel_id=talk.id) as stream:
        stopped = threading.Event()

        def cutting():
            while not stopped.wait(0.15):
                proxy.cut()

        thread = threading.Thread(target=cutting, daemon=True)
        thread.start()
        for n in range(40):
            talk.notify(None, {"n": n})
        found = numbers(stream, 20)
        stopped.set()
        thread.join()
        found += numbers(stream, 20)
    assert found == list(range(40))


def test_a_stream_goes_on_in_another_program(ada, bob, talk, intent):
    with ada.stream(intent_id=intent.id, event_types=["channel_message"]) as stream:
        talk.notify(None, {"n": 0})
        assert numbers(stream, 1) == [0]
        position = stream.last_event_id
    for n in (1, 2):
        talk.notify(None, {"n": n})
    with ada.stream(intent_id=intent.id, event_types="channel_message", last_event_id=position) as stream:
        assert numbers(stream, 2) == [1, 2]


def test_everything_that_one_may_see_is_one_stream(ada, talk):
    with ada.stream(event_types="channel_message") as stream:
        talk.notify(None, {"n": 1})
        for event in stream:
            if event.data["channel_id"] == talk.id:
                break


def test_a_stream_says_what_it_missed(ada, intent):
    made = ada.create_channel(intent.id, "small", options={"max_messages": 2})
    channel = ada.channel(made.id)
    with channel.stream() as stream:
        channel.notify(None, {"n": 0})
        assert numbers(stream, 1) == [0]
        position = stream.last_event_id
    for n in range(1, 6):
        channel.notify(None, {"n": n})
    with channel.stream(position) as stream:
        event = next(stream)
        assert (event.data["payload"]["n"], event.missed, stream.missed) == (4, 3, 3)
        assert next(stream).missed == 0


def test_a_refusal_ends_a_stream(ada):
    with pytest.raises(NotFoundError):
        with ada.stream(channel_id="chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"):
            pass


def test_an_inbox_is_read_once(ada, bob, talk):
    inbox = bob.inbox(reader="once")
    inbox.mark(inbox.read())
    for n in range(3):
        talk.notify("agent.bob", {"n": n})
    found = [entry.message.payload["n"] for entry in itertools.islice(inbox.entries(), 3)]
    assert found == [0, 1, 2]
    # The last entry was not followed by another one, so it is not marked: its reader may have died over it.
    again = inbox.read()
    assert [entry.message.payload["n"] for entry in again.entries] == [2]
    assert inbox.mark(again).place == again.next_place
    assert inbox.read().entries == []
    assert {"once"} <= {one.reader for one in inbox.state().readers}


def test_an_inbox_is_followed(ada, bob, talk):
    inbox = bob.inbox(reader="follower")
    inbox.mark(inbox.read())
    with inbox.follow() as stream:
        talk.notify("agent.bob", {"n": 7})
        assert next(stream).data["message"]["payload"] == {"n": 7}


def test_a_turn_happens_once_although_its_answer_is_lost(join, proxy, bob, talk):
    ada = join("agent.ada", proxy.url)
    proxy.lose_answers("POST /api/v1/turn", 2)
    taken = ada.turn({"messages": [{"channel_id": talk.id, "to": "agent.bob", "payload": {"n": 1}}]})
    assert proxy.lost == 2
    assert len(taken.done.messages) == 1
    assert len(talk.messages()) == 1
