static int local(int x) { return x ^ /*@local2*/33; }
int helper(int x) { return local(x) * /*@helper*/2 + 1; }
