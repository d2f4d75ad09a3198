// All tests of the client against one real server, which starts once, because that takes most of the time.

import { after, before } from "node:test";
import { start, stop } from "./server.js";

before(start, { timeout: 120_000 });
after(stop);

await import("./cases/messages.js");
await import("./cases/streams.js");
await import("./cases/leases.js");
await import("./cases/decisions.js");
await import("./cases/envelopes.js");
await import("./cases/agents.js");
await import("./cases/workers.js");
