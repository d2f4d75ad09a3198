// The reference server of Durable Streams, with its file store.

import { DurableStreamTestServer } from "@durable-streams/server";

const [port, dataDir] = process.argv.slice(2);
await new DurableStreamTestServer({ port: Number(port), host: "127.0.0.1", dataDir }).start();
console.log("ready");
