# Bundles with our own client: what one server wrote is imported as it is.

import hashlib

import pytest
from entente import Entente, operations


@pytest.mark.parametrize("read", [bytes, bytes.decode])
def test_a_bundle_is_imported_and_read_again(ada, server, read):
    admin = Entente(server.url, server.operator)
    intent = ada.create_intent("Research")
    written = ada.call(operations.export_intent(intent.id))
    keys = [key.did for key in admin.call(operations.server_keys()).keys]
    made = admin.call(operations.import_bundle(read(written), server_key=keys * 2))
    assert (made.intent_id, made.sha256) == (intent.id, hashlib.sha256(written).hexdigest())
    assert admin.call(operations.get_bundle_file(made.id)) == written
    lines = admin.call(operations.list_bundle_lines(made.id, kind="event")).lines
    assert [line.number for line in lines] == [2]
