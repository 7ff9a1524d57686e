/* Measures how far one block of numbers is from another, in one pass: class Partial of lakeprobe/tensors/kernel.py.

   Each lane is summed in its own order. So the compiler may vectorise the loops over lanes, and the sums are the same to
   the last bit on every processor. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16, CHUNK = 2048 }; /* two chunks stay in the L1 cache between the two loops over them */

struct sums { /* class Partial describes the fields */
  double target_squares, difference_squares, golden_squares, product;
  int64_t below_one_thousandth, below_five_thousandths;
  double max_difference, max_relative, max_golden;
};

#define INLINE static inline __attribute__((always_inline))
#define EACH_LANE for (int lane = 0; lane < LANES; lane++)

struct lanes {
  double target[LANES], difference[LANES], golden[LANES], product[LANES], furthest[LANES];
};

INLINE void add(struct lanes *lanes, int lane, double target, double golden) {
  double difference = target - golden, distance = fabs(difference);
  lanes->target[lane] += target * target;
  lanes->difference[lane] += difference * difference;
  lanes->golden[lane] += golden * golden;
  lanes->product[lane] += target * golden;
  lanes->furthest[lane] = lanes->furthest[lane] < distance ? distance : lanes->furthest[lane];
}

INLINE double total(double *lanes) {
  for (int half = LANES / 2; half; half /= 2)
    for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

INLINE double greater(double one, double other) { return one > other ? one : other; }

#define REAL float
#define BITS int32_t
#define EPSILON FLT_EPSILON
#define NAMED(name) name##_float32
#include "pair.inc"

#undef REAL
#undef BITS
#undef EPSILON
#undef NAMED
#define REAL double
#define BITS int64_t
#define EPSILON DBL_EPSILON
#define NAMED(name) name##_float64
#include "pair.inc"
