// Graphile Worker with a task that returns at once. With the argument `migrate` it only creates its schema.

import { Logger, run, runMigrations } from "graphile-worker";

const [connectionString, command] = process.argv.slice(2);
// It would write a line for each job.
const logger = new Logger(() => () => {});

if (command === "migrate") {
    await runMigrations({ connectionString, logger });
} else {
    await run({
        preset: {
            worker: {
                connectionString,
                concurrentJobs: 24,
                maxPoolSize: 10,
                pollInterval: 100,
                localQueue: { size: 500 },
                completeJobBatchDelay: 0,
                failJobBatchDelay: 0,
            },
        },
        logger,
        taskList: { echo: async () => {} },
    });
    console.log("ready");
}
