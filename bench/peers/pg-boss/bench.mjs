import { Pool } from "pg";
import { PgBoss } from "pg-boss";
import { measure } from "./measure.mjs";

const connectionString = process.env.BENCH_POSTGRES;
const boss = new PgBoss({ connectionString, max: 16, supervise: false, schedule: false });
boss.on("error", (error) => console.error(error.message));
await boss.start();
await boss.createQueue("bench");
const pool = new Pool({ connectionString, max: 1 });

const producer = {
  enqueue: (payload) => boss.send("bench", payload),
  enqueueMany: (payloads) => boss.insert("bench", payloads.map((data) => ({ data }))),
  clear: () => boss.deleteAllJobs("bench"),
  waiting: async () => {
    const { rows } = await pool.query("select count(*)::int as left from pgboss.job where state < 'completed'");
    return rows[0].left;
  },
  close: async () => {
    await pool.end();
    await boss.stop({ graceful: false });
  },
};

await measure({
  peer: "pg-boss 12.38.0",
  about: "fetch and complete by 500, by id and retry count, asked again after 1 ms when there was nothing",
  fenced: true,
  producer,
  file: new URL("./worker.mjs", import.meta.url).pathname,
});
