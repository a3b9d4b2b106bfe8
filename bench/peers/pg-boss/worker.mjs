import { PgBoss } from "pg-boss";
import { worker } from "./measure.mjs";

const boss = new PgBoss({ connectionString: process.env.BENCH_POSTGRES, max: 4, supervise: false, schedule: false });
boss.on("error", (error) => console.error(error.message));
await boss.start();
let goes_on = true;
let over;
const ended = worker(() => {
  goes_on = false;
  return over.then(() => boss.stop({ graceful: false }));
});

async function take() {
  while (goes_on) {
    const jobs = await boss.fetch("bench", { batchSize: 500, includeMetadata: true });
    if (jobs.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      continue;
    }
    await boss.complete("bench", jobs.map(({ id, retryCount }) => ({ id, retryCount })));
    for (const job of jobs) ended(job.data);
  }
}
over = take();
await over;
