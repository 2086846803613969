// SPDX-License-Identifier: GPL-2.0
// Training: pipes, and threads that wake each other.

#include "workload.h"

#include <linux/pipe_fs_i.h>
#include <linux/string.h>

enum { STREAM = 16384 };

static char written[STREAM], read[STREAM];

static bool make_pipe(struct file *ends[2])
{
	return create_pipe_files(ends, 0) == 0;
}

/* Sends a counter back, one more each time. */
static int counter(struct worker *worker)
{
	u64 round;

	for (round = 0; round < worker->rounds; round++) {
		u64 value;

		if (!read_all(worker->in, &value, sizeof(value), NULL))
			return -1;
		value++;
		if (!write_all(worker->out, &value, sizeof(value), NULL))
			return -1;
	}
	return 0;
}

bool section_pipe_latency(struct run *run)
{
	struct worker worker = {.rounds = run->rounds};
	struct file *there[2], *back[2];
	u64 round, value = 0;

	CHECK(run, make_pipe(there) && make_pipe(back));
	worker.in = there[0];
	worker.out = back[1];
	CHECK(run, start_worker(&worker, counter));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		CHECK(run, write_all(there[1], &value, sizeof(value), NULL));
		CHECK(run, read_all(back[0], &value, sizeof(value), NULL));
	}
	finish(run, run->rounds);
	CHECK(run, join_worker(&worker) == 0 && value == run->rounds);
	close_file(there[0]);
	close_file(there[1]);
	close_file(back[0]);
	close_file(back[1]);
	return true;
}

static int drain(struct worker *worker)
{
	ssize_t got;

	while ((got = kernel_read(worker->in, read, STREAM, NULL)) > 0)
		worker->bytes += got;
	return got;
}

/* Pieces of 1, 4 and 16 KiB. */
bool section_pipe_stream(struct run *run)
{
	static const u32 SIZES[] = {1024, 4096, 16384};
	struct worker worker = {};
	struct file *ends[2];
	u64 round, bytes = 0;

	CHECK(run, make_pipe(ends));
	worker.in = ends[0];
	CHECK(run, start_worker(&worker, drain));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		u32 size = SIZES[round % ARRAY_SIZE(SIZES)];

		CHECK(run, write_all(ends[1], written, size, NULL));
		bytes += size;
	}
	close_file(ends[1]);
	CHECK(run, join_worker(&worker) == 0);
	finish(run, run->rounds);
	CHECK(run, worker.bytes == bytes);
	close_file(ends[0]);
	return true;
}

static int wakes_back(struct worker *worker)
{
	u64 round;

	for (round = 0; round < worker->rounds; round++) {
		wait_for_completion(&worker->wake);
		worker->bytes++;
		complete(&worker->other->wake);
	}
	return 0;
}

bool section_thread_switch(struct run *run)
{
	struct worker own = {}, worker = {.rounds = run->rounds, .other = &own};
	u64 round;

	init_completion(&own.wake);
	CHECK(run, start_worker(&worker, wakes_back));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		complete(&worker.wake);
		wait_for_completion(&own.wake);
	}
	finish(run, run->rounds);
	CHECK(run, join_worker(&worker) == 0 && worker.bytes == run->rounds);
	return true;
}
