/* Summarises float32 numbers in one pass: class Summary of lakeprobe/tensors/summary.py.

   Number i is added in column i modulo COLUMNS. So the order of additions does not depend on the processor, nor on how many
   columns it adds at once, and the road in numpy has the same. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { COLUMNS = 128, ROWS = 8, LANES = 32 };

typedef float number __attribute__((aligned(1), may_alias)); /* memory need not be aligned */

struct summary { /* class Summary describes the fields */
  double high, low, sum, squares;
  int64_t zeros, minus, nans, above, below;
};

struct range {
  float high[LANES], low[LANES];
  uint32_t zeros[LANES];
};

struct sums {
  double sum[COLUMNS], squares[COLUMNS];
};

#define INLINE static inline __attribute__((always_inline))
#define EACH(index, end) for (int index = 0; index < (end); index++)

INLINE void widen(struct range *to, int lane, float value) {
  to->high[lane] = value > to->high[lane] ? value : to->high[lane];
  to->low[lane] = value < to->low[lane] ? value : to->low[lane];
  to->zeros[lane] += value == 0;
}

INLINE void add(struct sums *to, int column, float value, int fused) {
  double wide = value; /* its square is exact, so it makes no difference whether product and sum are fused */
  to->sum[column] += wide;
  to->squares[column] = fused ? __builtin_fma(wide, wide, to->squares[column]) : to->squares[column] + wide * wide;
}

/* The first loop reads memory in its order, which is fastest, and the second one finds it in the cache. */
INLINE void add_rows(struct range *range, struct sums *sums, const number *numbers, int rows, int fused) {
  for (int start = 0; start < rows * COLUMNS; start += LANES)
    EACH(lane, LANES) widen(range, lane, numbers[start + lane]);
  EACH(column, COLUMNS) EACH(row, rows) add(sums, column, numbers[row * COLUMNS + column], fused);
}

INLINE double total(double *columns) {
  for (int half = COLUMNS / 2; half; half /= 2) EACH(column, half) columns[column] += columns[column + half];
  return columns[0];
}

INLINE void summarise(const number *numbers, size_t size, struct summary *result, int fused) {
  struct range range = {0};
  EACH(lane, LANES) range.high[lane] = -INFINITY, range.low[lane] = INFINITY;
  struct sums sums = {0};
  size_t done = 0;
  for (; done + ROWS * COLUMNS <= size; done += ROWS * COLUMNS) add_rows(&range, &sums, numbers + done, ROWS, fused);
  for (; done + COLUMNS <= size; done += COLUMNS) add_rows(&range, &sums, numbers + done, 1, fused);
  for (int column = 0; done < size; column++, done++) {
    widen(&range, column % LANES, numbers[done]);
    add(&sums, column, numbers[done], fused);
  }

  *result = (struct summary){.high = -INFINITY, .low = INFINITY, .sum = total(sums.sum), .squares = total(sums.squares)};
  EACH(lane, LANES) {
    result->high = range.high[lane] > result->high ? range.high[lane] : result->high;
    result->low = range.low[lane] < result->low ? range.low[lane] : result->low;
    result->zeros += range.zeros[lane];
  }
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
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512"))) static void
with_avx512(const number *numbers, size_t size, struct summary *result) {
  summarise(numbers, size, result, 1);
}

__attribute__((target("avx2,fma"))) static void
with_avx2(const number *numbers, size_t size, struct summary *result) {
  summarise(numbers, size, result, 1);
}
#endif

void lakeprobe_summary(const void *numbers, size_t size, struct summary *result) {
#if defined(__x86_64__)
  int fma = __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    with_avx512(numbers, size, result);
    return;
  }
  if (fma && __builtin_cpu_supports("avx2")) {
    with_avx2(numbers, size, result);
    return;
  }
#endif
  summarise(numbers, size, result, 0);
}
