// Drives the JavaScript SDK of A2A, unmodified, against the agent at ENTENTE_URL, in the binding that the argument names, and
// prints what came of it.
import { randomUUID } from "node:crypto";
import { Role, TaskState } from "@a2a-js/sdk";
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

const { ENTENTE_URL, ENTENTE_API_KEY, A2A_AGENT } = process.env;
const fetchImpl = (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${ENTENTE_API_KEY}`);
  return fetch(url, { ...init, headers });
};
const Transport = process.argv[2] === "JSONRPC" ? JsonRpcTransportFactory : RestTransportFactory;
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
});
const factory = new ClientFactory({ ...options, transports: [new Transport({ fetchImpl })] });
// The card's path is relative, so the URL of the agent ends with a slash here.
const client = await factory.createFromUrl(`${ENTENTE_URL}/a2a/${A2A_AGENT}/`, ".well-known/agent-card.json");

const message = (text, more = {}, configuration = undefined) => ({
  tenant: "",
  message: {
    messageId: randomUUID(),
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
  configuration,
  metadata: undefined,
});
const state = (status) => TaskState[status.state];
const plain = (parts) => parts.map((part) => ({ [part.content.$case]: part.content.value }));
const names = { task: "task", statusUpdate: "status_update", artifactUpdate: "artifact_update" };

/** Returns an event in short. */
function kind({ payload }) {
  const { $case, value } = payload;
  if ($case === "artifactUpdate") {
    return [names[$case], value.artifact.parts[0].content.value, value.append, value.lastChunk];
  }
  return [names[$case], state(value.status).replace("TASK_STATE_", "")];
}

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

async function refused(call) {
  try {
    await call();
    return "nothing";
  } catch (error) {
    return error.constructor.name.replace(/^_?(JsonRpc|Rest)?/, "");
  }
}

const seen = {};
const card = await client.getAgentCard();
seen.card = [card.name, card.supportedInterfaces.map((one) => one.protocolBinding)];

const echoed = await client.sendMessage(message("echo hello"));
seen.echo = {
  status: { state: state(echoed.status), message: { parts: plain(echoed.status.message.parts) } },
  artifacts: echoed.artifacts.map(({ parts }) => ({ parts: plain(parts) })),
  history: echoed.history.map(({ parts }) => ({ parts: plain(parts) })),
};
const got = await client.getTask({ tenant: "", id: echoed.id, historyLength: 1 });
seen.same = [got.id === echoed.id, got.history.length, JSON.stringify(got.artifacts) === JSON.stringify(echoed.artifacts)];

seen.stream = (await all(client.sendMessageStream(message("stream")))).map(kind);

const asking = await all(client.sendMessageStream(message("ask")));
const task = asking[0].payload.value;
seen.asked = kind(asking.at(-1));
const booked = await client.sendMessage(message("Oslo", { taskId: task.id, contextId: task.contextId }));
seen.booked = [state(booked.status), booked.artifacts[0].parts[0].content.value, booked.contextId === task.contextId];

seen.declined = state((await client.sendMessage(message("decline"))).status);

const now = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true };
const begun = await client.sendMessage(message("wait", {}, now));
const following = all(client.resubscribeTask({ tenant: "", id: begun.id }));
await new Promise((resolve) => setTimeout(resolve, 500));
const cancelled = await client.cancelTask({ tenant: "", id: begun.id, metadata: undefined });
seen.cancelled = state(cancelled.status);
seen.followed = (await following).map(kind);

const every = { contextId: "", status: TaskState.TASK_STATE_UNSPECIFIED, statusTimestampAfter: undefined };
const page = await client.listTasks({ tenant: "", ...every, pageSize: 100, pageToken: "" });
seen.listed = page.tasks.length;

const push = { tenant: "", id: "", taskId: echoed.id, url: "http://10.0.0.1/inside", token: "", authentication: undefined };
seen.refused = [
  await refused(() => client.getTask({ tenant: "", id: "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" })),
  await refused(() => client.cancelTask({ tenant: "", id: echoed.id, metadata: undefined })),
  await refused(() => client.sendMessage(message("more", { taskId: echoed.id }))),
  await refused(() => all(client.resubscribeTask({ tenant: "", id: echoed.id }))),
  await refused(() => client.createTaskPushNotificationConfig(push)),
];
console.log(JSON.stringify(seen));
