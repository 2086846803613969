/* Runs the sections that it is asked for, and says of each how long it took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sock;
int tcp_sendmsg(struct sock *sk, int size);
int read_file(int size);

static unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static const struct section {
	int number;
	const char *name;
	int (*work)(int size);
} sections[] = {
	{ 1, "pipe_latency", read_file }, { 2, "file_copy", read_file }, { 22, "tcp_rr", 0 },
	{ 23, "tcp_crr", 0 },		  { 24, "udp_rr", read_file },	 { 101, "key_value", read_file },
};

static const char *option(int words, char **word, const char *name, const char *otherwise)
{
	for (int at = 1; at < words; at++)
		if (!strncmp(word[at], name, strlen(name)))
			return word[at] + strlen(name);
	return otherwise;
}

static int is_wanted(const char *wanted, const struct section *section)
{
	const char *kind = section->number > 100 ? "held" : "train";

	return !strcmp(wanted, "all") || strstr(wanted, kind) || strstr(wanted, section->name);
}

int main(int words, char **word)
{
	const char *wanted = option(words, word, "PLANISH_SECTIONS=", "all");
	int rounds = atoi(option(words, word, "PLANISH_ROUNDS=", "100"));

	puts("planish: begin 1");
	for (unsigned int at = 0; at < sizeof(sections) / sizeof(*sections); at++) {
		const struct section *section = &sections[at];
		unsigned long long took;
		int done = 0;

		if (!is_wanted(wanted, section))
			continue;
		printf("planish: section %d %s %s\n", section->number,
		       section->number > 100 ? "held" : "train", section->name);
		took = now();
		for (int turn = 0; turn < 40 * rounds; turn++)
			done += section->work ? section->work(turn) : tcp_sendmsg(0, turn);
		took = now() - took;
		printf("planish: result %d %d %llu\n", section->number, 40 * rounds,
		       took + (done == 12345));
	}
	puts("planish: end");
}
