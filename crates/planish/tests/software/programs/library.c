// Two libraries with the same names and other code: compiled with SECOND or without.
#include <stdint.h>

uint64_t work(uint64_t value) {
  for (volatile int i = 0; i < 4000; i++) {
#ifdef SECOND
    value = value % 3 == 0 ? value * 7 + 1 : value ^ (uint64_t)i;
#else
    if ((value & 5) == 1) value += 9;
    value = (value << 3 | value >> 61) - 5;
#endif
  }
  return value;
}
