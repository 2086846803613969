// SPDX-License-Identifier: GPL-2.0
// Threads, sockets and files for the sections.

#include "workload.h"

#include <linux/file.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/uio.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

static int run_worker(void *data)
{
	struct worker *worker = data;

	worker->result = worker->work(worker);
	complete(&worker->done);
	return 0;
}

bool start_worker(struct worker *worker, int (*work)(struct worker *worker))
{
	worker->work = work;
	init_completion(&worker->done);
	init_completion(&worker->wake);
	return !IS_ERR(kthread_run(run_worker, worker, "planish"));
}

int join_worker(struct worker *worker)
{
	wait_for_completion(&worker->done);
	return worker->result;
}

struct socket *loopback_socket(int type, struct sockaddr_in *address)
{
	int protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	struct socket *socket;

	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (sock_create_kern(&init_net, AF_INET, type, protocol, &socket))
		return NULL;
	if (kernel_bind(socket, (struct sockaddr *)address, sizeof(*address)) ||
	    (type == SOCK_STREAM && kernel_listen(socket, 128)) ||
	    kernel_getsockname(socket, (struct sockaddr *)address) < 0) {
		sock_release(socket);
		return NULL;
	}
	return socket;
}

struct socket *loopback_connect(const struct sockaddr_in *address)
{
	struct sockaddr_in to = *address;
	struct socket *socket;

	if (sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &socket))
		return NULL;
	if (kernel_connect(socket, (struct sockaddr *)&to, sizeof(to), 0)) {
		sock_release(socket);
		return NULL;
	}
	tcp_sock_set_nodelay(socket->sk);
	return socket;
}

bool unix_pair(int type, struct socket *pair[2])
{
	if (sock_create_kern(&init_net, AF_UNIX, type, 0, &pair[0]))
		return false;
	if (sock_create_kern(&init_net, AF_UNIX, type, 0, &pair[1])) {
		sock_release(pair[0]);
		return false;
	}
	if (pair[0]->ops->socketpair(pair[0], pair[1])) {
		sock_release(pair[0]);
		sock_release(pair[1]);
		return false;
	}
	return true;
}

bool send_all(struct socket *socket, const void *data, size_t size)
{
	while (size) {
		struct msghdr message = {};
		struct kvec part = {.iov_base = (void *)data, .iov_len = size};
		int sent = kernel_sendmsg(socket, &message, &part, 1, size);

		if (sent <= 0)
			return false;
		data += sent;
		size -= sent;
	}
	return true;
}

int receive_all(struct socket *socket, void *data, size_t size)
{
	size_t there = 0;

	while (there < size) {
		struct msghdr message = {};
		struct kvec part = {.iov_base = data + there, .iov_len = size - there};
		int got = kernel_recvmsg(socket, &message, &part, 1, size - there, 0);

		if (got < 0)
			return got;
		if (got == 0)
			break;
		there += got;
	}
	return there;
}

bool send_to(struct socket *socket, const struct sockaddr_in *to, const void *data, size_t size)
{
	struct msghdr message = {.msg_name = (void *)to, .msg_namelen = to ? sizeof(*to) : 0};
	struct kvec part = {.iov_base = (void *)data, .iov_len = size};

	return kernel_sendmsg(socket, &message, &part, 1, size) == size;
}

int receive_from(struct socket *socket, struct sockaddr_in *from, void *data, size_t size)
{
	struct msghdr message = {.msg_name = from, .msg_namelen = from ? sizeof(*from) : 0};
	struct kvec part = {.iov_base = data, .iov_len = size};

	return kernel_recvmsg(socket, &message, &part, 1, size, 0);
}

bool read_all(struct file *file, void *data, size_t size, loff_t *at)
{
	while (size) {
		ssize_t got = kernel_read(file, data, size, at);

		if (got <= 0)
			return false;
		data += got;
		size -= got;
	}
	return true;
}

bool write_all(struct file *file, const void *data, size_t size, loff_t *at)
{
	while (size) {
		ssize_t written = kernel_write(file, data, size, at);

		if (written <= 0)
			return false;
		data += written;
		size -= written;
	}
	return true;
}

struct file *open_file(const char *name, int flags)
{
	struct file *file = filp_open(name, flags, 0600);

	return IS_ERR(file) ? NULL : file;
}

void close_file(struct file *file)
{
	__fput_sync(file);
}
