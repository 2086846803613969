/* SPDX-License-Identifier: GPL-2.0 */
/* What the sections of the workload that runs inside the kernel share: runs, checks, threads, sockets, files. */
#ifndef PLANISH_NATIVE_H
#define PLANISH_NATIVE_H

#include <linux/completion.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/in.h>
#include <linux/kernel.h>
#include <linux/net.h>
#include <linux/types.h>

/* The first number of a held-out section. */
#define FIRST_HELD 101

struct run;

struct section {
	int number;
	const char *name;
	u64 rounds;
	bool (*body)(struct run *run);
};

/* One run of one section. */
struct run {
	u64 rounds;
	u64 start;
	u64 nanoseconds;
	u64 operations;
	char failure[160];
};

extern const struct section SECTIONS[];
extern const int SECTION_COUNT;

/* host.c, which is compiled against the C library of the host */
unsigned long long planish_cpu_ns(void);
void planish_write(const char *text, int length);
void planish_exit(void);

/* Everything before begin() and after finish() is set-up and not counted. */
void begin(struct run *run);
void finish(struct run *run, u64 operations);

/* Notes why a section failed; always false. */
bool fail(struct run *run, const char *file, int line, const char *condition);

#define CHECK(run, condition)                                                  \
	do {                                                                   \
		if (!(condition))                                              \
			return fail((run), __FILE__, __LINE__, #condition);    \
	} while (0)

/* A thread beside that of the section. */
struct worker {
	int (*work)(struct worker *worker);
	struct completion done;
	int result;
	struct socket *socket;
	struct file *in, *out;
	u64 rounds, bytes;
	u32 connections, request, response;
	struct worker *other;
	struct completion wake;
	void *memory;
};

bool start_worker(struct worker *worker, int (*work)(struct worker *worker));
/* Waits for the end of a worker; what it returned. */
int join_worker(struct worker *worker);

/* A socket of the loopback device on a free port. */
struct socket *loopback_socket(int type, struct sockaddr_in *address);
struct socket *loopback_connect(const struct sockaddr_in *address);
/* Two unix sockets that are connected to each other. */
bool unix_pair(int type, struct socket *pair[2]);
bool send_all(struct socket *socket, const void *data, size_t size);
/* How much was read until `size` bytes were there, or the connection ended. */
int receive_all(struct socket *socket, void *data, size_t size);
bool send_to(struct socket *socket, const struct sockaddr_in *to, const void *data, size_t size);
int receive_from(struct socket *socket, struct sockaddr_in *from, void *data, size_t size);

/* Reads, or writes, all of it; false where that does not work. */
bool read_all(struct file *file, void *data, size_t size, loff_t *at);
bool write_all(struct file *file, const void *data, size_t size, loff_t *at);
/* A file of the kernel's first file system. */
struct file *open_file(const char *name, int flags);
void close_file(struct file *file);

/* A sequence of numbers, the same on each boot. */
static inline u32 next_number(u32 *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

bool section_pipe_latency(struct run *run);
bool section_pipe_stream(struct run *run);
bool section_file_copy(struct run *run);
bool section_path_walk(struct run *run);
bool section_directory(struct run *run);
bool section_unix_stream(struct run *run);
bool section_tcp_stream(struct run *run);
bool section_tcp_rr(struct run *run);
bool section_tcp_crr(struct run *run);
bool section_udp_rr(struct run *run);
bool section_thread_switch(struct run *run);
bool section_pipe_lines(struct run *run);
bool section_key_value(struct run *run);
bool section_compile_tree(struct run *run);
bool section_allocate(struct run *run);
bool section_unix_dgram(struct run *run);
bool section_log_append(struct run *run);
bool section_dns_batch(struct run *run);

#endif
