// Functions that only another file calls.
static unsigned deep(unsigned x) { unsigned r = x; if (x % 3 == 1) r = x * 5 + 1; else if (x % 11 == 4) r = x / 7 + (x >> 3) * 9 - (x << 2) + x % 101; else r = x ^ 0x55; return r; }
unsigned far_helper(unsigned x) { unsigned r = deep(x) + deep(x >> 4); for (unsigned i = 0; i < (x & 3); i++) r = r * 31 + deep(r + i); return r; }
unsigned far_rare(unsigned x) { return deep(x) * 3; }
