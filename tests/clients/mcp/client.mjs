// Drives the TypeScript client of MCP (2.x) against the server at ENTENTE_URL: reads steps from its argument, a JSON list of
// [method, params], and prints what came of each.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const { ENTENTE_URL, ENTENTE_API_KEY } = process.env;
const client = new Client({ name: "entente-tests", version: "1" });
const headers = { Authorization: `Bearer ${ENTENTE_API_KEY}` };
await client.connect(new StreamableHTTPClientTransport(new URL(`${ENTENTE_URL}/mcp`), { requestInit: { headers } }));
const answers = [{ server: client.getServerVersion(), instructions: client.getInstructions() }];
for (const [method, params] of JSON.parse(process.argv[2])) {
  answers.push(await client[method](params));
}
console.log(JSON.stringify(answers));
await client.close();
