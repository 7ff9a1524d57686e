/* Summarises float32 numbers in one pass: class Summary of lakeprobe/tensors/summary.py.

   Each lane is summed in its own order. So the compiler may vectorise the loops over lanes, and the sums are the same to
   the last bit on every processor, and on the road in numpy. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, BLOCK = 1 << 16 };

typedef float number __attribute__((aligned(1), may_alias)); /* memory need not be aligned */

struct summary { /* class Summary describes the fields */
  double high, low, sum, squares;
  int64_t zeros, minus, nans, above, below;
};

struct lanes {
  float high[LANES], low[LANES];
  double sum[LANES], squares[LANES];
  int32_t zeros[LANES];
};

#define INLINE static inline __attribute__((always_inline))
#define EACH_LANE for (int lane = 0; lane < LANES; lane++)

INLINE void add(struct lanes *lanes, int lane, float value) {
  lanes->high[lane] = value > lanes->high[lane] ? value : lanes->high[lane];
  lanes->low[lane] = value < lanes->low[lane] ? value : lanes->low[lane];
  lanes->zeros[lane] += value == 0;
  double wide = value;
  lanes->sum[lane] += wide;
  lanes->squares[lane] += wide * wide;
}

INLINE double total(double *lanes) {
  for (int half = LANES / 2; half; half /= 2)
    for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

INLINE void add_block(const number *numbers, size_t size, struct summary *result) {
  struct lanes lanes = {0};
  EACH_LANE lanes.high[lane] = -INFINITY, lanes.low[lane] = INFINITY;
  size_t done = 0;
  for (; done + LANES <= size; done += LANES) EACH_LANE add(&lanes, lane, numbers[done + lane]);
  EACH_LANE if (done + lane < size) add(&lanes, lane, numbers[done + lane]);
  EACH_LANE {
    result->high = lanes.high[lane] > result->high ? lanes.high[lane] : result->high;
    result->low = lanes.low[lane] < result->low ? lanes.low[lane] : result->low;
    result->zeros += lanes.zeros[lane];
  }
  result->sum += total(lanes.sum);
  result->squares += total(lanes.squares);
}

INLINE void summarise(const number *numbers, size_t size, struct summary *result) {
  *result = (struct summary){.high = -INFINITY, .low = INFINITY};
  for (size_t start = 0; start < size; start += BLOCK)
    add_block(numbers + start, size - start < BLOCK ? size - start : BLOCK, result);
  if (!isfinite(result->squares))
    for (size_t i = 0; i < size; i++) {
      result->nans += isnan(numbers[i]);
      result->above += numbers[i] == INFINITY;
      result->below += numbers[i] == -INFINITY;
    }
  if (result->nans) result->high = result->low = NAN;
  if (result->high == 0 || result->low == 0)
    for (size_t i = 0; i < size; i++) result->minus |= numbers[i] == 0 && signbit(numbers[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) static void
with_avx512(const number *numbers, size_t size, struct summary *result) {
  summarise(numbers, size, result);
}

__attribute__((target("avx2"))) static void
with_avx2(const number *numbers, size_t size, struct summary *result) {
  summarise(numbers, size, result);
}
#endif

void lakeprobe_summary(const void *numbers, size_t size, struct summary *result) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    with_avx512(numbers, size, result);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    with_avx2(numbers, size, result);
    return;
  }
#endif
  summarise(numbers, size, result);
}
