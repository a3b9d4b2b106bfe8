/* Preloaded into a process, it adds what stands in a file to every reading of the wall clock, and to nothing else: the
 * clocks by which deadlines and timers go are those of the kernel. See wall.rs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef int clock_reader(clockid_t, struct timespec *);

/* Seconds. The file is written while the process runs. */
static const volatile int64_t *offset;
static clock_reader *kernel;

__attribute__((constructor)) static void begin(void) {
  kernel = (clock_reader *)dlsym(RTLD_NEXT, "clock_gettime");
  const char *name = getenv("TEST_WALL_OFFSET");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *shared = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (shared != MAP_FAILED) offset = shared;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  if (!kernel) kernel = (clock_reader *)dlsym(RTLD_NEXT, "clock_gettime");
  int answer = kernel(clock, at);
  if (answer == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *offset;
  return answer;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int answer = clock_gettime(CLOCK_REALTIME, &now);
  if (answer == 0) *at = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return answer;
}

time_t time(time_t *at) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
