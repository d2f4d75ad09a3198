# A person, and their own key: one that the operator makes for a person cannot answer questions.

import re

import httpx


def let_in(server, name):
    """Logs a person in with a one-time link, creates a key on the page, and returns it."""
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.operator}) as admin:
        made = admin.post("/principals", json={"id": name, "kind": "human"})
        assert made.status_code in (201, 409), made.text
        link = admin.post(f"/people/{name}/links", json={}).raise_for_status().json()["path"]
    with httpx.Client(base_url=server.url, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
        assert browser.post(link, data={}).status_code == 303
        token = re.search(r'name="token" value="([^"]+)"', browser.get("/terminal").text)[1]
        page = browser.post("/terminal", data={"token": token, "for": "program"})
    return re.search(r"ent_\w+", page.text)[0]


def choose(url, key, index, moment=None):
    """Answers the first open question to a person, or a certain one, with one of its options."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": key}) as person:
        while True:
            waiting = person.get("/moments/inbox").raise_for_status().json()["moments"]
            waiting = [one for one in waiting if moment in (None, one["id"])]
            if waiting:
                break
        found = waiting[0]
        answer = {"envelope_digest": found["envelope_digest"], "resolution": {"kind": "option", "option_idx": index}}
        person.post(f"/moments/{found['id']}/resolution", json=answer).raise_for_status()
        return found["id"]
