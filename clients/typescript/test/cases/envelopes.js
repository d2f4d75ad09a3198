// Envelopes: the canonical form, signatures that the gateway verifies, mail that is received until it is acknowledged.

import assert from "node:assert/strict";
import { EnvelopeKey, canonical, ulid } from "../../dist/index.js";
import { Proxy, client, test } from "../server.js";

test("the canonical form is that of RFC 8785", () => {
  // The sample of RFC 8785 §3.2.2 and §3.2.3.
  const sample = { numbers: [333333333.33333329, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
    string: "\u20ac$\u000f\nA'B\"\\\\\"/", literals: [null, true, false] };
  assert.equal(canonical(sample), '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    + '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}');
  assert.equal(canonical({ "\ufb33": 7, "😂": 6, "ö": 5, "€": 1, "1": 3, "\r": 2, "\u0080": 4 }),
    '{"\\r":2,"1":3,"\u0080":4,"ö":5,"€":1,"😂":6,"\ufb33":7}');
  for (const wrong of [NaN, Infinity, "\ud800", { a: [1n] }]) assert.throws(() => canonical(wrong), TypeError);
  assert.match(ulid(), /^01[0-9A-HJKMNP-TV-Z]{24}$/);
  assert.equal(ulid(0).slice(0, 10), "0000000000");
});

test("a signed envelope is verified, delivered once, and answered", async () => {
  const proxy = await Proxy.open();
  const [researcher, data] = [client("researcher", { url: proxy.url }), client("data")];
  const made = await EnvelopeKey.generate("2026-11", { extractable: true });
  const key = await EnvelopeKey.import("2026-11", await made.export());
  assert.equal(key.publicKey, made.publicKey);
  await researcher.mail.registerKey(key);
  proxy.lose("/aee/envelopes");
  const receipt = await researcher.mail.send({ to: "agent.data", type: "task", intent: "rows.count", payload: { table: "visits", "ünit": 1e20 } }, { key });
  assert.equal(proxy.left, 0);
  const received = data.mail.receive();
  const { value: item } = await received.next();
  assert.deepEqual([item.envelope.id, item.verified.by, item.verified.kid], [receipt.id, "sig", "2026-11"]);
  await data.mail.reply(item.envelope, { rows: 48211 });
  const [answer] = await researcher.mail.fetch({ wait: 10 });
  assert.deepEqual([answer.envelope.reply_to, answer.envelope.payload], [receipt.id, { rows: 48211 }]);
  await researcher.mail.acknowledge(answer.seq);
  assert.deepEqual(await researcher.mail.fetch(), []);
  // What was not asked to go on is not acknowledged.
  await received.return();
  assert.equal((await data.mail.fetch()).length, 1);
});

test("an envelope that was changed after it was signed is refused", async () => {
  const clerk = client("clerk");
  const key = await EnvelopeKey.generate("k1");
  await clerk.mail.registerKey(key);
  const signed = await key.sign(await clerk.mail.compose({ to: "agent.data", type: "event", intent: "rows.counted", payload: { rows: 1 } }));
  await assert.rejects(clerk.mail.send({ ...signed, payload: { rows: 2 } }), { status: 403, code: "bad_signature" });
  assert.equal((await clerk.mail.send(signed)).verified.kid, "k1");
});
