#!/usr/bin/env python3
"""Verifies a bundle of an intent without Entente: an independent reading of docs/wire/bundle.md.

    verify_bundle.py FILE [--server-key did:key:…]

Needs Python 3.10 and the packages `cryptography` and `rfc8785`, and nothing of this repository. It checks that the file is whole and every line is
as the server sealed it, the chain of the log, its checkpoints, the proofs in it and the receipts of decisions. That the events make
the intent's state is checked by `entente verify` only. Reads line by line: of each event it keeps the hash.
"""

import argparse
import base64
import hashlib
import json
import sys
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from rfc8785 import dumps as canonical

FORMAT = "entente-bundle/1"
STATEMENT, PAYLOAD = "https://in-toto.io/Statement/v1", "application/vnd.in-toto+json"
SEAL, RECEIPT = "urn:entente:bundle:1", "urn:entente:decision:1"
GROUPS = "bundle deleted identity event checkpoint channel job cost charge budget decision child".split()
PARENTS = {"message": ("channel", "channel_id"), "job_event": ("job", "job_id")}
NAMES = {"channel": "id", "job": "job_id"}
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SKEW = timedelta(seconds=300)


class Broken(Exception):
    """The file is no bundle, or is not as the server wrote it."""


def need(holds, fault):
    if not holds:
        raise Broken(fault)


def once(pairs):
    members = dict(pairs)
    need(len(members) == len(pairs), "a member is there twice")
    return members


def parse(text):
    return json.loads(text, object_pairs_hook=once, parse_int=float)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def show(digest):
    return "sha256:" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def read(shown):
    need(isinstance(shown, str) and len(shown) == 50, "a hash is none")
    digest = base64.urlsafe_b64decode(shown[7:] + "=")
    need(show(digest) == shown, "a hash is none")
    return digest


def did(name):
    """Returns the key of a `did:key`."""
    need(isinstance(name, str) and name.startswith("did:key:z") and len(name) < 80, "a key is no did:key")
    value = 0
    for letter in name[9:]:
        need(letter in BASE58, "a key is no did:key")
        value = value * 58 + BASE58.index(letter)
    key = value.to_bytes(max(34, (value.bit_length() + 7) // 8), "big")
    need(len(key) == 34 and key[:2] == b"\xed\x01", "a key is no Ed25519 key")
    return key[2:]


def signed(key, signature, text):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def strict(text):
    """Decodes base64 that has one text form."""
    decoded = base64.b64decode(text, validate=True)
    need(base64.b64encode(decoded).decode() == text, "base64 is not as the server writes it")
    return decoded


def attested(envelope, subject, digest, kind, predicate, trusted):
    """Checks a DSSE envelope: who signed it, and that it states exactly this. Returns the signing key."""
    need(set(envelope) == {"payload", "payloadType", "signatures"} and len(envelope["signatures"]) == 1, "an attestation has other members")
    (one,) = envelope["signatures"]
    need(set(one) == {"keyid", "sig"} and envelope["payloadType"] == PAYLOAD, "an attestation has other members")
    payload = strict(envelope["payload"])
    text = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)
    need(signed(did(one["keyid"]), strict(one["sig"]), text), "the signature is not over the statement")
    need(not trusted or one["keyid"] in trusted, f"{one['keyid']} is not a key of the server")
    about = [{"name": subject, "digest": {"sha256": digest.hex()}}]
    stated = {"_type": STATEMENT, "subject": about, "predicateType": kind, "predicate": predicate}
    need(canonical(parse(payload)) == canonical(stated), "the attestation states something else")
    return one["keyid"]


def root(leaves):
    """Returns the Merkle root of a checkpoint: the last leaf fills the row."""
    row = leaves + [leaves[-1]] * ((1 << (len(leaves) - 1).bit_length()) - len(leaves))
    while len(row) > 1:
        row = [sha256(left, right) for left, right in zip(row[::2], row[1::2])]
    return row[0]


class Bundle:
    """What has been read of a bundle."""

    def __init__(self, trusted):
        self.trusted, self.hash, self.file, self.counts = trusted, bytes(32), hashlib.sha256(), {}
        self.header, self.last, self.parent, self.seal = None, None, None, None
        self.leaves, self.deleted, self.covered, self.events, self.keys = [], 0, 0, 0, {}

    def line(self, raw):
        need(self.seal is None, "it follows the seal")
        need(raw.endswith(b"\n"), "the file ends in the middle of it")
        value = parse(raw[:-1])
        need(canonical(value) == raw[:-1], "it is not canonical JSON")
        if "payloadType" in value:
            stated = {"counts": self.counts, "exported_at": self.header["exported_at"], "format": FORMAT, "head": show(self.hash)}
            self.seal = attested(value, self.header["intent"]["id"], self.file.digest(), SEAL, stated, self.trusted)
            return
        need(set(value) == {"body", "hash", "kind"}, "it has other members")
        body, kind = value["body"], value["kind"]
        bare = canonical({"body": body, "kind": kind})
        self.hash = sha256(self.hash, bare)
        need(value["hash"] == show(self.hash), "it does not have its hash, or does not follow the line before it")
        self.file.update(raw)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.place(kind, body)
        getattr(self, f"on_{kind}", lambda _: None)(body)

    def place(self, kind, body):
        group, member = PARENTS.get(kind, (kind, None))
        need(group in GROUPS, f"`{kind}` is no kind of line")
        now, before = GROUPS.index(group), -1 if self.last is None else GROUPS.index(self.last)
        need(now > before if kind == "bundle" else now >= max(before, 0) and self.header, "it stands in another place")
        if member:
            need(self.last == group and body.get(member) == self.parent, f"it belongs to another {group}")
        else:
            self.parent = body.get(NAMES.get(kind, ""))
        self.last = group

    def on_bundle(self, body):
        need(body["format"] == FORMAT, f"its format is not {FORMAT}")
        self.header = body

    def on_deleted(self, body):
        self.leaves += [read(hash) for hash in body["event_hashes"]]
        self.deleted = len(self.leaves)

    def on_identity(self, body):
        self.keys[body["agent_id"]] = body["keys"]

    def on_event(self, body):
        bare = {name: value for name, value in body.items() if name != "event_hash"}
        digest = sha256(canonical(bare))
        need(body["event_hash"] == show(digest), "the event's content does not give its hash")
        need(body["sequence"] == len(self.leaves) + 1 and body["intent_id"] == self.header["intent"]["id"], "the event is of another place")
        before = show(self.leaves[-1]) if self.leaves else None
        need(body["previous_event_hash"] == before, "the event does not follow the one before it")
        self.leaves.append(digest)
        if body.get("proof_verified"):
            need(self.proved(body), "the event's proof is not one by a key that its actor had then")

    def proved(self, body):
        proof = {name: value for name, value in body["proof"].items() if name != "signature"}
        names = ("intent_id", "event_type", "actor", "payload")
        text = canonical({**{name: body[name] for name in names}, "proof": proof})
        signature = body["proof"]["signature"].removeprefix("ed25519:").replace("+", "-").replace("/", "_").rstrip("=")
        signature, at = base64.urlsafe_b64decode(signature + "=="), time(body["created_at"])
        for key in self.keys.get(body["actor"], []):
            ends = [time(key[name]) for name in ("expires_at", "ended_at") if key.get(name)]
            if time(key["valid_from"]) <= at + SKEW and all(at - SKEW < end for end in ends):
                public = base64.urlsafe_b64decode(key["public_key"].removeprefix("ed25519:") + "=")
                if signed(public, signature, text):
                    return True
        return False

    def on_checkpoint(self, body):
        bare = canonical({name: value for name, value in body.items() if name != "signature"})
        signature = base64.urlsafe_b64decode(body["signature"] + "==")
        need(signed(did(body["signed_by"]), signature, bare), "the checkpoint's signature is not over it")
        need(not self.trusted or body["signed_by"] in self.trusted, "the checkpoint is by another key")
        count = int(body["event_count"])
        need(0 < count <= len(self.leaves) and body["intent_id"] == self.header["intent"]["id"], "the checkpoint is of another log")
        need(show(root(self.leaves[:count])) == body["merkle_root"], "the log does not give the checkpoint's root")
        self.covered = max(self.covered, count)

    def on_decision(self, body):
        digest = body.get("digest")
        if "brief" in body:
            need(digest == "sha256:" + sha256(canonical(body["brief"])).hex(), "the question does not have its digest")
        if digest and "resolution" in body:
            predicate = {name: body[name] for name in ("moment_id", "agent_id", "profile", "resolution")}
            attested(body["receipt"], body["moment_id"], bytes.fromhex(digest[7:]), RECEIPT, predicate, self.trusted)

    def finish(self):
        need(self.seal, "the file ends without the server's seal")
        need(len(self.leaves) == self.header["event_count"], "events are missing, or were added")
        need(self.header["head"] == (show(self.leaves[-1]) if self.leaves else None), "the log ends with another event")
        need(self.deleted == self.header.get("deleted", {}).get("event_count", 0), "hashes of deleted events are missing")
        need(self.covered >= self.deleted, "no checkpoint covers the deleted events")


def time(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def verify(file, trusted=()):
    """Verifies the lines of a file; returns the bundle, or raises `Broken`."""
    bundle, at = Bundle(set(trusted)), 0
    try:
        for at, raw in enumerate(file, 1):
            bundle.line(raw)
        bundle.finish()
    except (Broken, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as fault:
        raise Broken(f"line {at}: {fault}") from None
    return bundle


def main():
    arguments = argparse.ArgumentParser(description="Verifies a bundle of an intent.")
    arguments.add_argument("file")
    arguments.add_argument("--server-key", action="append", default=[], help="a key of the server, known from elsewhere")
    asked = arguments.parse_args()
    try:
        with open(asked.file, "rb") as file:
            bundle = verify(file, asked.server_key)
    except Broken as fault:
        sys.exit(f"{asked.file} is not as a server wrote it: {fault}")
    print(f"{bundle.header['intent']['id']}: " + ", ".join(f"{count} × {kind}" for kind, count in bundle.counts.items()))
    print(f"signed by {bundle.seal}" + ("" if asked.server_key else "; compare that with the server's, or give it with --server-key"))


if __name__ == "__main__":
    main()
