// PADDLE_HD: marks a function that nvcc compiles for the host and for a card, and every other
// compiler for the host alone.
#pragma once

#if defined(__CUDACC__)
#define PADDLE_HD __host__ __device__
#else
#define PADDLE_HD
#endif
