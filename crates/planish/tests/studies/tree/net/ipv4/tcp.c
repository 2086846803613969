struct sock;

static int checksum(int value)
{
	return value % 5 == 3 ? value * 7 : value & 2 ? value + 1 : value / 3;
}

int tcp_sendmsg(struct sock *sk, int size)
{
	int sum = sk ? 1 : 0;

	for (int at = 0; at < 40; at++)
		sum += checksum(sum + at * size);
	return sum;
}
