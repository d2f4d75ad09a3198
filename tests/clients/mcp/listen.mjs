// Follows a resource with the TypeScript client of MCP (2.x) in 2026-07-28: opens `subscriptions/listen` for the URI of the
// first argument, calls the tool of the second with the arguments of the third, and prints the notification.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const { ENTENTE_URL, ENTENTE_API_KEY } = process.env;
const [uri, name, given] = process.argv.slice(2);
const client = new Client({ name: "entente-tests", version: "1" }, { versionNegotiation: { mode: "auto" } });
const headers = { Authorization: `Bearer ${ENTENTE_API_KEY}` };
await client.connect(new StreamableHTTPClientTransport(new URL(`${ENTENTE_URL}/mcp`), { requestInit: { headers } }));
const told = new Promise((resolve) => client.setNotificationHandler("notifications/resources/updated", resolve));
const subscription = await client.listen({ resourceSubscriptions: [uri] });
await client.callTool({ name, arguments: JSON.parse(given) });
const { params } = await told;
const version = client.getNegotiatedProtocolVersion();
console.log(JSON.stringify({ honored: subscription.honoredFilter, uri: params.uri, version }));
await subscription.close();
await client.close();
