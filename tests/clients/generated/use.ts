// Uses the client that openapi-typescript generates from the document: what does not fit it does not compile. Prints what
// came of each step, as JSON.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string> };

type Problem = components["schemas"]["ProblemBody"];
type JobProblem = components["schemas"]["JobProblemBody"];

const open = (key: string) => createClient<paths>({ baseUrl: process.env.ENTENTE_URL!, headers: { "X-API-Key": key } });
const client = open(process.env.ENTENTE_API_KEY!);

/** A failure, in words of the closed list: the comparison compiles only with a word that is on it. */
const house = (problem: Problem | undefined): string => {
  switch (problem?.code) {
    case "not_found":
      return `gone: ${problem.status}`;
    case "unauthenticated":
      return `who: ${problem.status}`;
    case "invalid_request":
      return `wrong: ${problem.errors.map((fault) => fault.loc.join(".")).join()}`;
    case "if_match_required":
    case "version_conflict":
      return `stale: ${problem.current_version ?? "unread"}`;
    default:
      throw new Error(`an answer that was not expected: ${JSON.stringify(problem)}`);
  }
};

const job = (problem: JobProblem | undefined): string =>
  problem?.code === "JOB_NOT_FOUND" && !problem.retryable ? `gone: ${problem.status}` : JSON.stringify(problem);

const made = await client.POST("/api/v1/intents", { body: { title: "From a generated client" } });
const intent = made.data!;
const state = await client.POST("/api/v1/intents/{intent_id}/state", {
  params: { path: { intent_id: intent.id }, header: { "If-Match": intent.version } },
  body: { patches: [{ op: "set", path: "progress", value: 40 }] },
});
const channel = await client.POST("/api/v1/intents/{intent_id}/channels", {
  params: { path: { intent_id: intent.id } },
  body: { name: "talk", options: { audit: true } },
});
const message = await client.POST("/api/v1/channels/{channel_id}/messages", {
  params: { path: { channel_id: channel.data!.id } },
  body: { sender: "agent.ada", message_type: "notify", payload: { n: 1 } },
});
const listed = await client.GET("/api/v1/channels/{channel_id}/messages", {
  params: { path: { channel_id: channel.data!.id }, query: { limit: 10 } },
});
const status: "delivered" | "read" | "pending" | "expired" = message.data!.status;

const { error: gone } = await client.GET("/api/v1/intents/{intent_id}", {
  params: { path: { intent_id: "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" } },
});
const { error: who } = await open("wrong").GET("/api/v1/intents");
const { error: stale } = await client.POST("/api/v1/intents/{intent_id}/state", {
  params: { path: { intent_id: intent.id }, header: { "If-Match": 1 } },
  body: { patches: [{ op: "set", path: "progress", value: "half" }] },
});
const { error: wrong } = await client.POST("/api/v1/intents", { body: { title: 7 as unknown as string } });
const { error: lost } = await client.GET("/api/v1/jobs/{job_id}", {
  params: { path: { job_id: "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" } },
});

console.log(
  JSON.stringify({
    title: intent.title,
    state: state.data!.state,
    status,
    listed: listed.data!.map((one) => one.payload),
    gone: house(gone),
    who: house(who),
    stale: house(stale),
    wrong: house(wrong),
    lost: job(lost),
  }),
);
