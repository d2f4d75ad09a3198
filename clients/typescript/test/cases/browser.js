// The same files in a real browser, on a page of the server's own origin: its API lets in no other one.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { close, window } from "../../../../tests/web/kit.js";
import { talk, test, url } from "../server.js";

test("a page sends, signs and follows", async () => {
  const { channel, other } = await talk("browser");
  try {
    const page = await window();
    await page.route("**/entente-client/**", (route) => {
      const path = new URL(route.request().url()).pathname.replace("/entente-client/", "../../dist/");
      return route.fulfill({ contentType: "text/javascript", body: readFileSync(new URL(path, import.meta.url), "utf8") });
    });
    await page.goto(`${url}/login`);
    const following = page.evaluate(async (id) => {
      const { Entente, EnvelopeKey } = await import("/entente-client/index.js");
      const entente = new Entente({ apiKey: "key-data" });
      const channel = entente.channel(id);
      const stream = channel.follow();
      const first = stream[Symbol.asyncIterator]().next();
      await stream.opened;
      await channel.notify("agent.researcher", { from: "a page" });
      const key = await EnvelopeKey.generate("page");
      await entente.mail.registerKey(key);
      const receipt = await entente.mail.send({ to: "agent.clerk", type: "event", intent: "page.opened", payload: {} }, { key });
      return [(await first).value.data.payload.from, receipt.verified.kid];
    }, channel.id);
    assert.deepEqual(await following, ["a page", "page"]);
    const { messages } = await other.messages();
    assert.deepEqual(messages.map(({ sender, payload }) => [sender, payload.from]), [["agent.data", "a page"]]);
    assert.deepEqual(page.faults, []);
  } finally {
    await close();
  }
});
