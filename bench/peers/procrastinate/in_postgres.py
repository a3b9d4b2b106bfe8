import subprocess


def worker():
    """Starts the worker, and returns what ends it."""
    log = open("workers-log", "ab")
    process = subprocess.Popen(
        ["procrastinate", "--app", "tasks.app", "worker", "--concurrency", "50", "--queues", "bench"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )

    def stop() -> None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    return stop
