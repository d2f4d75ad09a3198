// Decisions: a person is asked, and the agent waits for the answer.

import assert from "node:assert/strict";
import { client, test, until } from "../server.js";

export const question = {
  synopsis: "Ship release 1.4 today, behind the feature flag.",
  findings: ["CI is green on all 412 tests.", "Two of three reviewers approved; the third is away until tomorrow.",
    "No open blocker is left in the tracker.", "Tuesday's traffic is the lowest of the week."],
  recommendations: ["Tag v1.4 on the release branch.", "Publish to the registry with the flag off.", "Turn the flag on for 5 % of users."],
  offer: "Ask for detail on any item.",
  question: {
    stem: "When should release 1.4 ship?",
    options: [
      { label: "Ship today", reasoning: "All checks pass, and the flag limits what can go wrong." },
      { label: "Wait a day", reasoning: "The third reviewer is back tomorrow." },
    ],
    recommended_idx: 0,
  },
};

test("a person decides, and the agent hears it", async () => {
  const researcher = client("researcher");
  const decision = await researcher.decisions.ask("human.ada", question, { expires_in: 600 });
  assert.equal((await decision.wait({ seconds: 1 })).resolution, undefined);
  const waiting = decision.wait();
  await client("ada").request("post", "/api/v1/moments/{moment_id}/resolution", {
    path: { moment_id: decision.id },
    body: { envelope_digest: decision.moment.envelope_digest, resolution: { kind: "option", option_idx: 1 } },
  });
  const decided = await waiting;
  assert.deepEqual([decided.resolution.kind, decided.choice, decided.resolution.resolved_by], ["option", "Wait a day", "human.ada"]);
  await decided.acknowledge();
  assert.ok((await researcher.decisions.get(decision.id)).moment.acknowledged_at);
});

test("a question that is withdrawn is over without an answer", async () => {
  const decision = await client("data").decisions.ask("human.ada", question);
  const waiting = decision.wait();
  await (await client("data").decisions.get(decision.id)).withdraw("no longer needed");
  const over = await waiting;
  assert.deepEqual([over.moment.state, over.resolution, over.choice], ["withdrawn", undefined, undefined]);
  await until(() => over.moment.ended_at, "the end");
});
