# Attachments through the SDK (RFC-0005). Its two clients use different names for the same members (OI-15.34).

import pytest
from kit import INTENT, recent, refused
from openintent import EventType, NotFoundError, OpenIntentError, Permission

FILE = "file_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
URL = "https://files.example/report.pdf"


def add(sdk, flavour, intent_id, name="report.pdf", url=URL, size=48_211):
    if flavour == "async":
        return sdk.add_attachment(intent_id, name, "application/pdf", url, size_bytes=size)
    return sdk.add_attachment(intent_id, name, "application/pdf", size, url, metadata={"pages": 12})


def test_a_file_is_added_listed_and_taken_off(ada, bob, intent, flavour):
    made = add(ada, flavour, intent.id)
    assert (made.intent_id, made.filename, made.mime_type) == (intent.id, "report.pdf", "application/pdf")
    assert (made.size, made.storage_url, made.uploaded_by) == (48_211, URL, "agent.ada")
    assert made.metadata == ({} if flavour == "async" else {"pages": 12})
    assert recent(made.created_at)
    second = add(bob, flavour, intent.id, "more.pdf", "s3://bucket/more.pdf", 0)
    assert bob.get_attachments(intent.id) == [made, second]
    assert ada.delete_attachment(intent.id, made.id) is None
    assert ada.get_attachments(intent.id) == [second]
    told = [event for event in ada.get_events(intent.id) if event.event_type == EventType.ATTACHMENT_ADDED]
    assert [event.payload.get("removed", False) for event in told] == [True, False, False]


def test_an_attachment_that_is_not_there(ada, intent, flavour):
    with refused(NotFoundError, 404, "not_found"):
        ada.delete_attachment(intent.id, FILE)
    with refused(NotFoundError, 404, "not_found"):
        ada.get_attachments(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        add(ada, flavour, INTENT)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "/uploads/report.pdf", "https://a:b@files.example/"])
def test_what_leads_nowhere_is_refused(ada, intent, flavour, url):
    with refused(OpenIntentError, 422, "invalid_request"):
        add(ada, flavour, intent.id, url=url)


def test_a_file_is_its_adders(ada, bob, eve, intent, flavour):
    for agent in ("agent.bob", "agent.eve"):
        ada.grant_access(intent.id, agent, permission=Permission.WRITE)
    made = add(bob, flavour, intent.id)
    with refused(OpenIntentError, 403, "forbidden"):
        eve.delete_attachment(intent.id, made.id)
    bob.delete_attachment(intent.id, made.id)
