// The same measures for every peer of Node.js. The producer is this process, the worker one of its own: they share no
// event loop, as ours share none.
//
// A producer has enqueue(payload), enqueueMany(payloads), waiting() (jobs that have not ended, as the database says) and
// close(). A worker is a file that calls `worker` of this module.
import { fork } from "node:child_process";
import { once } from "node:events";

const seconds = Number(process.env.BENCH_SECONDS ?? 3);
const drain = Number(process.env.BENCH_DRAIN ?? 50000);
const rate = Number(process.env.BENCH_RATE ?? 50);
const text = "x".repeat(Number(process.env.BENCH_PAYLOAD ?? 100));
const CALLERS = 64;
const PATIENCE_MS = 120_000;

const now = () => Number(process.hrtime.bigint()) / 1e6; // ms of the clock that all processes of the host share
const payload = () => ({ text });
const say = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Callers in a closed loop; how many jobs they stored, and in how many seconds. */
async function closed(callers, each, call, length = seconds) {
  const began = now();
  let jobs = 0;
  const one = async () => {
    while (now() - began < length * 1000) {
      await call();
      jobs += each;
    }
  };
  await Promise.all(Array.from({ length: callers }, one));
  return { jobs, began, took: (now() - began) / 1000 };
}

/** A worker process. */
class Worker {
  constructor(file) {
    this.ended = 0;
    this.lengths = [];
    this.child = fork(file, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    this.child.on("message", ({ ended, lengths }) => {
      this.ended += ended ?? 0;
      this.lengths.push(...(lengths ?? []));
    });
    this.child.on("exit", (code) => {
      this.gone = `the worker ended with ${code}`;
    });
  }

  async until(count) {
    const began = now();
    while (this.ended < count) {
      if (this.gone) throw new Error(this.gone);
      if (now() - began > PATIENCE_MS) throw new Error(`${this.ended} of ${count} jobs ended`);
      await sleep(1);
    }
  }

  async stop() {
    const exit = once(this.child, "exit");
    this.child.send("stop");
    await exit;
  }
}

/** Measures a producer and a worker, and says what it found. */
export async function measure({ peer, about, fenced, producer, file, batches = true }) {
  say({ peer, about, fenced });
  const single = () => producer.enqueue(payload());
  const many = (count) => () => producer.enqueueMany(Array.from({ length: count }, payload));

  await closed(CALLERS, 1, single, seconds / 4);
  let found = await closed(CALLERS, 1, single);
  say({ measure: "enqueue_single", value: found.jobs / found.took });
  if (batches) {
    found = await closed(2, 1000, many(1000));
    say({ measure: "enqueue_batch", value: found.jobs / found.took });
  }
  await producer.clear();

  for (let left = drain; left > 0; left -= 1000) await many(Math.min(left, 1000))();
  let began = now();
  const worker = new Worker(file);
  await worker.until(drain);
  say({ measure: "drain", value: drain / ((now() - began) / 1000) });
  let all = drain;

  const lifecycle = async (name, callers, each, call) => {
    const { jobs, began } = await closed(callers, each, call);
    all += jobs;
    await worker.until(all);
    say({ measure: name, value: jobs / ((now() - began) / 1000) });
  };
  await lifecycle("lifecycle_single", CALLERS, 1, single);
  if (batches) await lifecycle("lifecycle_batch", 2, 500, many(500));

  // On a timetable, whatever became of the job before.
  worker.lengths.length = 0;
  const count = Math.max(20, rate * seconds);
  const calls = [];
  began = now();
  for (let number = 0; number < count; number += 1) {
    await sleep(Math.max(0, began + (number * 1000) / rate - now()));
    calls.push(producer.enqueue({ ...payload(), at: now() }));
  }
  await Promise.all(calls);
  await worker.until(all + count);
  const lengths = worker.lengths.sort((a, b) => a - b);
  const share = (of) => lengths[Math.max(0, Math.ceil(lengths.length * of) - 1)];
  say({ measure: "round_trip_p50", value: share(0.5) });
  say({ measure: "round_trip_p99", value: share(0.99) });

  await worker.stop();
  const left = await producer.waiting();
  await producer.close();
  if (left !== 0) throw new Error(`${left} jobs are left in the database`);
}

/** What a worker tells: that a job ended, and how long it took if it was asked to measure. */
export function worker(stop) {
  let ended = 0;
  let lengths = [];
  setInterval(() => {
    if (ended > 0) process.send({ ended, lengths });
    [ended, lengths] = [0, []];
  }, 2);
  process.on("message", () => void Promise.resolve(stop()).then(() => process.exit(0)));
  return ({ at }) => {
    ended += 1;
    if (at) lengths.push(now() - at);
  };
}
