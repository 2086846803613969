// SPDX-License-Identifier: GPL-2.0
// The workload's door to the host: its clock of CPU time, its standard output, and its end.

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

unsigned long long planish_cpu_ns(void);
void planish_write(const char *text, int length);
void planish_exit(void);

// The kernel is one thread of the host; what its helpers take is not of interest.
unsigned long long planish_cpu_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now))
		return 0;
	return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

void planish_write(const char *text, int length)
{
	while (length > 0) {
		ssize_t written = write(1, text, (size_t)length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return;
		text += written;
		length -= (int)written;
	}
}

// At once, with no signal between: the kernel's own way down tells devices and processes that are not there, and one in some
// hundred times a timer's signal met it half dismantled.
void planish_exit(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	_exit(0);
}
