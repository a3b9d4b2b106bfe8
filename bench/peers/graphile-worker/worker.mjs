import { Logger, run } from "graphile-worker";
import { worker } from "./measure.mjs";

let runner;
const ended = worker(() => runner.stop());
runner = await run({
  taskList: { bench: async (payload) => ended(payload) },
  preset: {
    worker: {
      connectionString: process.env.BENCH_POSTGRES,
      concurrentJobs: 24,
      maxPoolSize: 16,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger: new Logger(() => () => {}),
    },
  },
});
