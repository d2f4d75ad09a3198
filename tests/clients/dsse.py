# Verifies a DSSE envelope with an in-toto statement by public packages alone: securesystemslib checks the signature, in-toto's
# own package the statement. Prints the statement as JSON. Runs in .venv/dsse: dsse.py ENVELOPE KEY, of which the key is a did:key.

import json
import sys
from pathlib import Path

from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def key_of(did: str) -> SSlibKey:
    number = 0
    for letter in did.removeprefix("did:key:z"):
        number = number * 58 + LETTERS.index(letter)
    public = number.to_bytes(34, "big")[2:]
    return SSlibKey(did, "ed25519", "ed25519", {"public": public.hex()})


envelope = Envelope.from_dict(json.loads(Path(sys.argv[1]).read_text()))
envelope.verify([key_of(sys.argv[2])], 1)
assert envelope.payload_type == "application/vnd.in-toto+json"
read = json_format.Parse(envelope.payload, statement_pb2.Statement())
statement = Statement.copy_from_pb(read)
statement.validate()
print(json_format.MessageToJson(read))
