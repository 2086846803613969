static int hash(int value)
{
	return value % 7 == 3 ? value / 3 : value & 1 ? 3 * value + 1 : value / 2;
}

int read_file(int size)
{
	int sum = 0;

	for (int at = 0; at < 40; at++)
		sum += hash(sum + at * size);
	return sum;
}
