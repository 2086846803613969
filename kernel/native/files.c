// SPDX-License-Identifier: GPL-2.0
// Training: files, names and directories in the kernel's first file system.

#include "workload.h"

#include <linux/fcntl.h>
#include <linux/init_syscalls.h>
#include <linux/namei.h>
#include <linux/string.h>

enum { FILE_BYTES = 256 << 10, DEPTH = 8, NAMES = 16 };

static char piece[4096], back[4096];

/* UnixBench's fstime: a file written, then copied in pieces of three sizes. */
bool section_file_copy(struct run *run)
{
	static const u32 SIZES[] = {256, 1024, 4096};
	struct file *from = open_file("/planish/from", O_RDWR | O_CREAT | O_TRUNC);
	struct file *to = open_file("/planish/to", O_RDWR | O_CREAT | O_TRUNC);
	u64 round;
	loff_t at;

	CHECK(run, from && to);
	for (at = 0; at < FILE_BYTES;) {
		piece[at % sizeof(piece)] = at >> 12;
		CHECK(run, write_all(from, piece, sizeof(piece), &at));
	}
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		u32 size = SIZES[round % ARRAY_SIZE(SIZES)];
		loff_t in = 0, out = 0;

		while (in < FILE_BYTES) {
			CHECK(run, read_all(from, back, size, &in));
			CHECK(run, write_all(to, back, size, &out));
		}
	}
	finish(run, run->rounds);
	at = FILE_BYTES - sizeof(back);
	CHECK(run, read_all(to, back, sizeof(back), &at) && !memcmp(back, piece, sizeof(back)));
	close_file(from);
	close_file(to);
	return true;
}

static bool is_there(const char *name)
{
	struct path path;

	if (kern_path(name, LOOKUP_FOLLOW, &path))
		return false;
	path_put(&path);
	return true;
}

/* Names that are found deep down, names that are not there, and symbolic links. */
bool __ref section_path_walk(struct run *run)
{
	char deep[128] = "/planish", missing[128], link[] = "/planish/link";
	u64 round;
	int at;

	for (at = 0; at < DEPTH; at++) {
		strcat(deep, "/directory");
		CHECK(run, init_mkdir(deep, 0700) == 0);
	}
	scnprintf(missing, sizeof(missing), "%s/missing", deep);
	CHECK(run, init_symlink(deep, link) == 0);
	begin(run);
	for (round = 0; round < run->rounds; round++)
		CHECK(run, is_there(deep) && !is_there(missing) && is_there(link));
	finish(run, run->rounds * 3);
	return true;
}

/* Creates, links, looks up and removes. */
bool __ref section_directory(struct run *run)
{
	char name[48], other[48];
	u64 round;

	CHECK(run, init_mkdir("/planish/many", 0700) == 0);
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		struct file *file;

		scnprintf(name, sizeof(name), "/planish/many/file%llu", round % NAMES);
		scnprintf(other, sizeof(other), "/planish/many/link%llu", round % NAMES);
		file = open_file(name, O_RDWR | O_CREAT | O_EXCL);
		CHECK(run, file);
		close_file(file);
		CHECK(run, init_link(name, other) == 0 && is_there(other));
		CHECK(run, init_unlink(name) == 0 && !is_there(name) && init_unlink(other) == 0);
	}
	finish(run, run->rounds);
	CHECK(run, init_rmdir("/planish/many") == 0);
	return true;
}
