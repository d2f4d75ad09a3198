// The service that Restate invokes: it returns its input.

import * as restate from "@restatedev/restate-sdk";

const echo = restate.service({
    name: "echo",
    handlers: { run: async (_context, input) => input },
});

await restate.serve({ services: [echo], port: Number(process.argv[2]) });
