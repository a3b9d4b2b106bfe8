import { makeWorkerUtils } from "graphile-worker";
import { Pool } from "pg";
import { measure } from "./measure.mjs";

const pool = new Pool({ connectionString: process.env.BENCH_POSTGRES, max: 16 });
const utils = await makeWorkerUtils({ pgPool: pool });
await utils.migrate();

const producer = {
  enqueue: (payload) => utils.addJob("bench", payload),
  enqueueMany: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: "bench", payload }))),
  clear: () => pool.query("delete from graphile_worker._private_jobs"),
  waiting: async () => {
    const { rows } = await pool.query("select count(*)::int as left from graphile_worker._private_jobs");
    return rows[0].left;
  },
  close: async () => {
    await utils.release();
    await pool.end();
  },
};

await measure({
  peer: "graphile-worker 0.18.0",
  about: "local queue 500, 24 jobs at once, completions in batches; ended jobs are deleted",
  fenced: false,
  producer,
  file: new URL("./worker.mjs", import.meta.url).pathname,
});
