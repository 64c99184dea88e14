/* The wall clock of one process, moved by what stands in the file CLOCK_SHIFT_FILE (a signed 64-bit count of
 * nanoseconds in the machine's order), and moved again whenever that changes. The monotonic clock is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("CLOCK_SHIFT_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	if (fd < 0)
		return;
	void *at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		shift = at;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	if (!real_clock_gettime)
		real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	int result = real_clock_gettime(id, now);
	if (result == 0 && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t total = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *shift;
		now->tv_sec = total / INT64_C(1000000000);
		now->tv_nsec = total % INT64_C(1000000000);
	}
	return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
	struct timespec at;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	now->tv_sec = at.tv_sec;
	now->tv_usec = at.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	if (out)
		*out = at.tv_sec;
	return at.tv_sec;
}
