// SPDX-License-Identifier: GPL-2.0
// Training: TCP and UDP over the loopback device, and unix sockets: streams, requests and responses, and connections
// made anew for each request.

#include "workload.h"

#include <linux/string.h>
#include <net/tcp.h>

enum { CHUNK = 16384, REQUEST = 64, UNIX_REQUEST = 512 };

static char sent[CHUNK], got[CHUNK], served[CHUNK];

/* Answers each request of each connection with as many bytes. */
static int echo_server(struct worker *worker)
{
	u32 connection;

	for (connection = 0; connection < worker->connections; connection++) {
		struct socket *socket;

		if (kernel_accept(worker->socket, &socket, 0))
			return -1;
		tcp_sock_set_nodelay(socket->sk);
		while (receive_all(socket, served, worker->request) == worker->request) {
			worker->bytes += worker->request;
			if (!send_all(socket, served, worker->response))
				return -1;
		}
		sock_release(socket);
	}
	return 0;
}

/* Reads a stream to its end. */
static int stream_server(struct worker *worker)
{
	struct socket *socket;
	int size;

	if (kernel_accept(worker->socket, &socket, 0))
		return -1;
	while ((size = receive_all(socket, served, CHUNK)) > 0)
		worker->bytes += size;
	sock_release(socket);
	return size;
}

bool section_tcp_rr(struct run *run)
{
	struct worker server = {.connections = 1, .request = REQUEST, .response = REQUEST};
	struct sockaddr_in address;
	struct socket *client;
	u64 round;

	server.socket = loopback_socket(SOCK_STREAM, &address);
	CHECK(run, server.socket && start_worker(&server, echo_server));
	client = loopback_connect(&address);
	CHECK(run, client);
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		sent[round % REQUEST]++;
		CHECK(run, send_all(client, sent, REQUEST));
		CHECK(run, receive_all(client, got, REQUEST) == REQUEST);
	}
	finish(run, run->rounds);
	CHECK(run, !memcmp(sent, got, REQUEST));
	sock_release(client);
	CHECK(run, join_worker(&server) == 0 && server.bytes == run->rounds * REQUEST);
	sock_release(server.socket);
	return true;
}

bool section_tcp_crr(struct run *run)
{
	struct worker server = {.connections = run->rounds, .request = REQUEST, .response = REQUEST};
	struct sockaddr_in address;
	u64 round;

	server.socket = loopback_socket(SOCK_STREAM, &address);
	CHECK(run, server.socket && start_worker(&server, echo_server));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		struct socket *client = loopback_connect(&address);

		CHECK(run, client && send_all(client, sent, REQUEST));
		CHECK(run, receive_all(client, got, REQUEST) == REQUEST);
		sock_release(client);
	}
	CHECK(run, join_worker(&server) == 0);
	finish(run, run->rounds);
	CHECK(run, server.bytes == run->rounds * REQUEST);
	sock_release(server.socket);
	return true;
}

bool section_tcp_stream(struct run *run)
{
	struct worker server = {};
	struct sockaddr_in address;
	struct socket *client;
	u64 round;

	server.socket = loopback_socket(SOCK_STREAM, &address);
	CHECK(run, server.socket && start_worker(&server, stream_server));
	client = loopback_connect(&address);
	CHECK(run, client);
	begin(run);
	for (round = 0; round < run->rounds; round++)
		CHECK(run, send_all(client, sent, CHUNK));
	sock_release(client);
	CHECK(run, join_worker(&server) == 0);
	finish(run, run->rounds);
	CHECK(run, server.bytes == run->rounds * CHUNK);
	sock_release(server.socket);
	return true;
}

static int udp_server(struct worker *worker)
{
	u64 round;

	for (round = 0; round < worker->rounds; round++) {
		struct sockaddr_in from;

		if (receive_from(worker->socket, &from, served, REQUEST) != REQUEST ||
		    !send_to(worker->socket, &from, served, REQUEST))
			return -1;
	}
	return 0;
}

bool section_udp_rr(struct run *run)
{
	struct worker server = {.rounds = run->rounds};
	struct sockaddr_in address, own;
	struct socket *client;
	u64 round;

	server.socket = loopback_socket(SOCK_DGRAM, &address);
	client = loopback_socket(SOCK_DGRAM, &own);
	CHECK(run, server.socket && client && start_worker(&server, udp_server));
	CHECK(run, kernel_connect(client, (struct sockaddr *)&address, sizeof(address), 0) == 0);
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		sent[round % REQUEST]++;
		CHECK(run, send_to(client, NULL, sent, REQUEST));
		CHECK(run, receive_from(client, NULL, got, REQUEST) == REQUEST);
	}
	CHECK(run, join_worker(&server) == 0);
	finish(run, run->rounds);
	CHECK(run, !memcmp(sent, got, REQUEST));
	sock_release(client);
	sock_release(server.socket);
	return true;
}

static int unix_server(struct worker *worker)
{
	while (receive_all(worker->socket, served, UNIX_REQUEST) == UNIX_REQUEST) {
		if (!send_all(worker->socket, served, UNIX_REQUEST))
			return -1;
		worker->bytes += UNIX_REQUEST;
	}
	return 0;
}

bool section_unix_stream(struct run *run)
{
	struct worker server = {};
	struct socket *pair[2];
	u64 round;

	CHECK(run, unix_pair(SOCK_STREAM, pair));
	server.socket = pair[1];
	CHECK(run, start_worker(&server, unix_server));
	begin(run);
	for (round = 0; round < run->rounds; round++) {
		sent[round % UNIX_REQUEST]++;
		CHECK(run, send_all(pair[0], sent, UNIX_REQUEST));
		CHECK(run, receive_all(pair[0], got, UNIX_REQUEST) == UNIX_REQUEST);
	}
	finish(run, run->rounds);
	CHECK(run, !memcmp(sent, got, UNIX_REQUEST));
	sock_release(pair[0]);
	CHECK(run, join_worker(&server) == 0 && server.bytes == run->rounds * UNIX_REQUEST);
	sock_release(pair[1]);
	return true;
}
