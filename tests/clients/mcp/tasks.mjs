// Calls a tool as a task with the TypeScript SDK of MCP (1.x), which has the experimental tasks of 2025-11-25, and prints
// every message of the stream. The tool's job is claimed and finished as soon as the task is there.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const AGENT = "mcp-node";
const { ENTENTE_URL, ENTENTE_API_KEY } = process.env;
const client = new Client({ name: "entente-tests", version: "1" });
const headers = { Authorization: `Bearer ${ENTENTE_API_KEY}` };
await client.connect(new StreamableHTTPClientTransport(new URL(`${ENTENTE_URL}/mcp`), { requestInit: { headers } }));
const call = async (name, given) => (await client.callTool({ name, arguments: given })).structuredContent;
await client.listTools();
await call("claim_job", { agents: [AGENT], register: true });
const stream = client.experimental.tasks.callToolStream({ name: "submit_job", arguments: { agent: AGENT } }, undefined, { task: {} });
const messages = [];
for await (const message of stream) {
  messages.push(message);
  if (message.type === "taskCreated") {
    const { job_id, claim_token } = (await call("claim_job", { agents: [AGENT] })).job;
    await call("finish_job", { job_id, claim_token, result: { ok: true } });
  }
}
console.log(JSON.stringify(messages));
await client.close();
