// SPDX-License-Identifier: GPL-2.0
// Held out: what a compiler does over a tree of files, lines appended to a log, lines through two pipes, and memory.

#include "workload.h"

#include <linux/fcntl.h>
#include <linux/init_syscalls.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/pipe_fs_i.h>
#include <linux/slab.h>
#include <linux/string.h>

enum { SOURCES = 36, DIRECTORIES = 6, HEADERS = 5, MOST_SOURCE = 24576, MOST_LINE = 200, BLOCKS = 512 };

static char text[MOST_SOURCE], name[96], other[96];

static bool write_source(const char *path, u32 size)
{
	struct file *file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
	loff_t at = 0;
	bool done;

	if (!file)
		return false;
	done = write_all(file, text, size, &at);
	close_file(file);
	return done;
}

static bool look_up(const char *path)
{
	struct path found;

	if (kern_path(path, 0, &found))
		return false;
	path_put(&found);
	return true;
}

static bool __ref compile(u32 source, u64 round)
{
	u32 size = 2048 + source * 601, header;
	struct file *file;
	loff_t at = 0;

	scnprintf(name, sizeof(name), "/planish/tree/part%u/source%u.c", source % DIRECTORIES, source);
	file = open_file(name, O_RDONLY);
	if (!file || !read_all(file, text, size, &at))
		return false;
	close_file(file);
	for (header = 0; header < HEADERS; header++) {
		u32 directory;

		/* In each directory before that where it is. */
		for (directory = 0; directory < DIRECTORIES; directory++) {
			scnprintf(name, sizeof(name), "/planish/tree/part%u/header%u.h", directory, header);
			if (look_up(name) != (directory == header))
				return false;
			if (directory == header)
				break;
		}
	}
	scnprintf(name, sizeof(name), "/planish/tree/temporary%llu", round % 7);
	scnprintf(other, sizeof(other), "/planish/tree/part%u/object%u.o", source % DIRECTORIES, source);
	return write_source(name, size / 2) && init_link(name, other) == 0 && init_unlink(name) == 0 &&
	       look_up(other) && init_unlink(other) == 0;
}

bool __ref section_compile_tree(struct run *run)
{
	u64 round;
	u32 at;

	CHECK(run, init_mkdir("/planish/tree", 0700) == 0);
	for (at = 0; at < DIRECTORIES; at++) {
		scnprintf(name, sizeof(name), "/planish/tree/part%u", at);
		CHECK(run, init_mkdir(name, 0700) == 0);
		if (at < HEADERS) {
			scnprintf(name, sizeof(name), "/planish/tree/part%u/header%u.h", at, at);
			CHECK(run, write_source(name, 900));
		}
	}
	for (at = 0; at < SOURCES; at++) {
		scnprintf(name, sizeof(name), "/planish/tree/part%u/source%u.c", at % DIRECTORIES, at);
		CHECK(run, write_source(name, 2048 + at * 601));
	}
	begin(run);
	for (round = 0; round < run->rounds; round++)
		for (at = 0; at < SOURCES; at++)
			CHECK(run, compile(at, round));
	finish(run, run->rounds * SOURCES);
	return true;
}

bool section_log_append(struct run *run)
{
	struct file *log = open_file("/planish/log", O_RDWR | O_CREAT | O_APPEND);
	char line[MOST_LINE];
	u64 round, bytes = 0;

	CHECK(run, log);
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		u32 size = scnprintf(line, sizeof(line), "%llu client %llu asked for page %llu and got %llu bytes",
				     round, round % 17, round * 7 % 1009, round * 31 % 65536);
		loff_t at = 0;

		line[size++] = '\n';
		CHECK(run, write_all(log, line, size, &at));
		bytes += size;
		if (round % 64 == 63)
			CHECK(run, vfs_fsync(log, 0) == 0);
	}
	finish(run, run->rounds);
	CHECK(run, i_size_read(file_inode(log)) == bytes);
	close_file(log);
	return true;
}

/* Hands on what comes, without every third letter. */
static int filter(struct worker *worker)
{
	static char in[MOST_LINE], out[MOST_LINE];
	ssize_t got;

	while ((got = kernel_read(worker->in, in, sizeof(in), NULL)) > 0) {
		u32 at, size = 0;

		for (at = 0; at < got; at++)
			if (at % 3 != 2)
				out[size++] = in[at];
		if (!write_all(worker->out, out, size, NULL))
			return -1;
		worker->bytes += got;
	}
	close_file(worker->out);
	return got;
}

static int count(struct worker *worker)
{
	static char in[MOST_LINE];
	ssize_t got;

	while ((got = kernel_read(worker->in, in, sizeof(in), NULL)) > 0)
		worker->bytes += got;
	return got;
}

bool section_pipe_lines(struct run *run)
{
	struct worker middle = {}, last = {};
	struct file *first[2], *second[2];
	u64 round, bytes = 0;

	CHECK(run, create_pipe_files(first, 0) == 0 && create_pipe_files(second, 0) == 0);
	middle.in = first[0];
	middle.out = second[1];
	last.in = second[0];
	CHECK(run, start_worker(&middle, filter) && start_worker(&last, count));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		u32 size = 3 * (1 + round * 13 % (MOST_LINE / 3));

		CHECK(run, write_all(first[1], text, size, NULL));
		bytes += size;
	}
	close_file(first[1]);
	CHECK(run, join_worker(&middle) == 0 && join_worker(&last) == 0);
	finish(run, run->rounds);
	/* A read may begin anywhere in a line. */
	CHECK(run, middle.bytes == bytes && last.bytes >= bytes / 3 * 2 && last.bytes < bytes);
	close_file(first[0]);
	close_file(second[0]);
	return true;
}

/* Blocks of many sizes, given back in another order. */
bool section_allocate(struct run *run)
{
	static void *blocks[BLOCKS];
	u32 random = 3, at;
	u64 round, operations = 0;

	begin(run);
	for (round = 0; round < run->rounds; round++) {
		for (at = 0; at < BLOCKS; at++) {
			u32 size = 16 << (next_number(&random) % 9);

			blocks[at] = at % 50 == 49 ? (void *)__get_free_pages(GFP_KERNEL, 2)
						   : kmalloc(size - next_number(&random) % 8, GFP_KERNEL);
			CHECK(run, blocks[at]);
			*(u32 *)blocks[at] = at;
		}
		for (at = 0; at < BLOCKS; at++) {
			u32 one = at * 77 % BLOCKS;

			CHECK(run, *(u32 *)blocks[one] == one);
			if (one % 50 == 49)
				free_pages((unsigned long)blocks[one], 2);
			else
				kfree(blocks[one]);
		}
		operations += BLOCKS;
	}
	finish(run, operations);
	return true;
}
