// SPDX-License-Identifier: GPL-2.0
// Held out: a key-value server with values of many sizes and three clients, names looked up in batches, and datagrams of
// unix sockets.

#include "workload.h"

#include <linux/slab.h>
#include <linux/string.h>
#include <net/tcp.h>

enum { KEYS = 256, LEAST_VALUE = 40, MOST_VALUE = 1200, CLIENTS = 3, BATCH = 16, DATAGRAM = 800 };

struct request {
	u32 key;
	/* Bytes of a value that follow; none asks for the value. */
	u32 size;
};

struct value {
	u32 size;
	char data[MOST_VALUE];
};

static bool serve_request(struct socket *socket, struct value *values)
{
	struct request request;
	struct value *value;

	if (receive_all(socket, &request, sizeof(request)) != sizeof(request))
		return false;
	if (request.key >= KEYS || request.size > MOST_VALUE)
		return false;
	value = &values[request.key];
	if (request.size) {
		value->size = request.size;
		if (receive_all(socket, value->data, value->size) != value->size)
			return false;
		return send_all(socket, &value->size, sizeof(value->size));
	}
	return send_all(socket, value, sizeof(value->size) + value->size);
}

/* One connection. */
static int key_value_server(struct worker *worker)
{
	struct socket *socket;

	if (kernel_accept(worker->socket, &socket, 0))
		return -1;
	tcp_sock_set_nodelay(socket->sk);
	while (serve_request(socket, worker->memory))
		worker->bytes++;
	sock_release(socket);
	return 0;
}

static bool ask(struct socket *socket, struct value *value, u32 *random)
{
	struct request request = {.key = next_number(random) % KEYS};
	bool sets = next_number(random) % 4 == 0;

	if (sets) {
		request.size = LEAST_VALUE + next_number(random) % (MOST_VALUE - LEAST_VALUE);
		memset(value->data, request.key, request.size);
		if (!send_all(socket, &request, sizeof(request)) ||
		    !send_all(socket, value->data, request.size))
			return false;
		return receive_all(socket, &value->size, sizeof(value->size)) == sizeof(value->size) &&
		       value->size == request.size;
	}
	if (!send_all(socket, &request, sizeof(request)) ||
	    receive_all(socket, &value->size, sizeof(value->size)) != sizeof(value->size) ||
	    value->size > MOST_VALUE)
		return false;
	return receive_all(socket, value->data, value->size) == value->size &&
	       (value->size == 0 || value->data[value->size - 1] == (char)request.key);
}

bool section_key_value(struct run *run)
{
	static struct worker servers[CLIENTS];
	struct value *values = kvcalloc(KEYS + 1, sizeof(*values), GFP_KERNEL);
	struct socket *clients[CLIENTS];
	struct sockaddr_in address;
	struct socket *listener = loopback_socket(SOCK_STREAM, &address);
	u32 random = 7;
	u64 round, served = 0;
	int at;

	CHECK(run, values && listener);
	for (at = 0; at < CLIENTS; at++) {
		servers[at] = (struct worker){.socket = listener, .memory = values};
		CHECK(run, start_worker(&servers[at], key_value_server));
		clients[at] = loopback_connect(&address);
		CHECK(run, clients[at]);
	}
	begin(run);
	for (round = 0; round < run->rounds; round++)
		CHECK(run, ask(clients[round % CLIENTS], &values[KEYS], &random));
	finish(run, run->rounds);
	/* Any of them may have any of the connections. */
	for (at = 0; at < CLIENTS; at++)
		sock_release(clients[at]);
	for (at = 0; at < CLIENTS; at++) {
		CHECK(run, join_worker(&servers[at]) == 0);
		served += servers[at].bytes;
	}
	CHECK(run, served == run->rounds);
	sock_release(listener);
	kvfree(values);
	return true;
}

static int name_server(struct worker *worker)
{
	static char packet[512];
	u64 left = worker->rounds;

	while (left--) {
		struct sockaddr_in from;
		int size = receive_from(worker->socket, &from, packet, sizeof(packet));

		if (size < 24)
			return -1;
		/* An answer is longer than what was asked. */
		memset(packet + size, packet[0], 3 * size);
		if (!send_to(worker->socket, &from, packet, 4 * size))
			return -1;
	}
	return 0;
}

bool section_dns_batch(struct run *run)
{
	static char packet[512];
	struct worker server = {.rounds = run->rounds * BATCH};
	struct sockaddr_in address, own;
	struct socket *client;
	u64 round;
	u32 at;

	server.socket = loopback_socket(SOCK_DGRAM, &address);
	client = loopback_socket(SOCK_DGRAM, &own);
	CHECK(run, server.socket && client && start_worker(&server, name_server));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		for (at = 0; at < BATCH; at++) {
			packet[0] = round + at;
			CHECK(run, send_to(client, &address, packet, 24 + (round * 5 + at * 7) % 90));
		}
		for (at = 0; at < BATCH; at++) {
			struct sockaddr_in from;
			int size = receive_from(client, &from, packet, sizeof(packet));

			CHECK(run, size == 4 * (24 + (round * 5 + at * 7) % 90));
			CHECK(run, packet[size - 1] == (char)(round + at));
		}
	}
	CHECK(run, join_worker(&server) == 0);
	finish(run, run->rounds * BATCH);
	sock_release(client);
	sock_release(server.socket);
	return true;
}

static int datagram_reader(struct worker *worker)
{
	static char datagram[DATAGRAM];
	u64 round;

	for (round = 0; round < worker->rounds; round++) {
		int size = receive_from(worker->socket, NULL, datagram, DATAGRAM);

		if (size <= 0)
			return -1;
		worker->bytes += size;
	}
	return 0;
}

bool section_unix_dgram(struct run *run)
{
	static char datagram[DATAGRAM];
	struct worker reader = {.rounds = run->rounds};
	struct socket *pair[2];
	u64 round, bytes = 0;

	CHECK(run, unix_pair(SOCK_DGRAM, pair));
	reader.socket = pair[1];
	CHECK(run, start_worker(&reader, datagram_reader));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		u32 size = 1 + (round * 37) % DATAGRAM;

		CHECK(run, send_to(pair[0], NULL, datagram, size));
		bytes += size;
	}
	CHECK(run, join_worker(&reader) == 0);
	finish(run, run->rounds);
	CHECK(run, reader.bytes == bytes);
	sock_release(pair[0]);
	sock_release(pair[1]);
	return true;
}
