// SPDX-License-Identifier: GPL-2.0
// Runs the sections once the kernel is up, says how much CPU time each took, and ends the kernel.
//
// PLANISH_SECTIONS= on the command line takes names of sections, train, held or all, separated by commas;
// PLANISH_ROUNDS= a percentage of the rounds.

#include "workload.h"

#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/init_syscalls.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <net/net_namespace.h>

const struct section SECTIONS[] = {
	{2, "pipe_latency", 120000, section_pipe_latency},
	{4, "pipe_stream", 70000, section_pipe_stream},
	{5, "file_copy", 600, section_file_copy},
	{7, "path_walk", 60000, section_path_walk},
	{8, "directory", 24000, section_directory},
	{17, "unix_stream", 70000, section_unix_stream},
	{20, "tcp_stream", 18000, section_tcp_stream},
	{22, "tcp_rr", 20000, section_tcp_rr},
	{24, "tcp_crr", 4000, section_tcp_crr},
	{26, "udp_rr", 25000, section_udp_rr},
	{33, "thread_switch", 250000, section_thread_switch},
	{101, "pipe_lines", 240000, section_pipe_lines},
	{102, "key_value", 18000, section_key_value},
	{104, "compile_tree", 120, section_compile_tree},
	{105, "allocate", 2000, section_allocate},
	{107, "unix_dgram", 200000, section_unix_dgram},
	{108, "log_append", 180000, section_log_append},
	{113, "dns_batch", 2500, section_dns_batch},
};
const int SECTION_COUNT = ARRAY_SIZE(SECTIONS);

static char wanted[256] = "all";
static unsigned int percent = 100;

static int __init wanted_sections(char *words)
{
	strscpy(wanted, words, sizeof(wanted));
	return 1;
}
__setup("PLANISH_SECTIONS=", wanted_sections);

static int __init wanted_rounds(char *words)
{
	if (kstrtouint(words, 10, &percent) || percent == 0)
		percent = 100;
	return 1;
}
__setup("PLANISH_ROUNDS=", wanted_rounds);

static __printf(1, 2) void say(const char *format, ...)
{
	char line[256];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vscnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	planish_write(line, length);
}

static bool is_held(const struct section *section)
{
	return section->number >= FIRST_HELD;
}

static bool is_wanted(const struct section *section)
{
	const char *word = wanted;
	const char *kind = is_held(section) ? "held" : "train";

	while (*word) {
		size_t length = strcspn(word, ",");

		if ((length == 3 && !strncmp(word, "all", 3)) ||
		    (length == strlen(kind) && !strncmp(word, kind, length)) ||
		    (length == strlen(section->name) && !strncmp(word, section->name, length)))
			return true;
		word += length;
		word += *word == ',';
	}
	return false;
}

void begin(struct run *run)
{
	run->start = planish_cpu_ns();
}

void finish(struct run *run, u64 operations)
{
	run->nanoseconds = planish_cpu_ns() - run->start;
	run->operations = operations;
}

bool fail(struct run *run, const char *file, int line, const char *condition)
{
	const char *name = strrchr(file, '/');

	scnprintf(run->failure, sizeof(run->failure), "%s, line %d: not so: %s", name ? name + 1 : file,
		  line, condition);
	return false;
}

static bool loopback_up(void)
{
	struct net_device *loopback = init_net.loopback_dev;
	int error;

	rtnl_lock();
	error = dev_change_flags(loopback, loopback->flags | IFF_UP, NULL);
	rtnl_unlock();
	return error == 0;
}

static int run_sections(struct worker *worker)
{
	int at;

	say("planish: begin 1\n");
	for (at = 0; at < SECTION_COUNT; at++) {
		const struct section *section = &SECTIONS[at];
		struct run run = {.rounds = section->rounds * percent / 100};

		if (!is_wanted(section))
			continue;
		if (run.rounds == 0)
			run.rounds = 1;
		say("planish: section %d %s %s\n", section->number, is_held(section) ? "held" : "train",
		    section->name);
		if (section->body(&run))
			say("planish: result %d %llu %llu\n", section->number, run.operations,
			    run.nanoseconds);
		else
			say("planish: failed %d %s\n", section->number, run.failure);
	}
	say("planish: end\n");
	return 0;
}

/* The sections run in a thread of the kernel, whose files are closed at once. */
static int __init planish(void)
{
	struct worker worker = {};

	if (!loopback_up() || init_mkdir("/planish", 0700)) {
		say("planish: failed 0 no loopback device, or no directory\n");
	} else if (start_worker(&worker, run_sections)) {
		join_worker(&worker);
	}
	planish_exit();
	return 0;
}
late_initcall_sync(planish);
