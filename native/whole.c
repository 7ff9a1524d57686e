/* Summarises integers: function at_whole of lakeprobe/tensors/summary.py. */
#include <stddef.h>
#include <stdint.h>

typedef int64_t number __attribute__((aligned(1), may_alias)); /* memory need not be aligned */

struct whole {
  int64_t high, low, sum, squares, zeros;
};

static const double EXACT = 9007199254740992.0; /* 2^53: float64 has every integer up to here */

/* `squares` is -1, and `sum` 0, if the sum of the squares may be more than EXACT. */
void lakeprobe_whole(const void *memory, size_t size, struct whole *result) {
  const number *numbers = memory;
  *result = (struct whole){.high = INT64_MIN, .low = INT64_MAX};
  for (size_t i = 0; i < size; i++) {
    result->high = numbers[i] > result->high ? numbers[i] : result->high;
    result->low = numbers[i] < result->low ? numbers[i] : result->low;
    result->zeros += !numbers[i];
  }
  double high = (double)result->high, low = (double)result->low;
  double largest = high > -low ? high : -low;
  if (!(largest * largest * (double)size <= EXACT)) {
    result->squares = -1;
    return;
  }
  for (size_t i = 0; i < size; i++) {
    result->sum += numbers[i];
    result->squares += numbers[i] * numbers[i];
  }
}
