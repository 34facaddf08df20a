// Macros before a function that have it compiled for more than one machine: for several instruction
// sets, picked when the program starts, or for a card.
#pragma once

// Sanitizers are not ready when the choice is made, so their builds use the baseline. The level
// x86-64-v4 (AVX-512 F, BW, CD, DQ, VL) tests CPU features; a CPU's name would test its maker and
// model.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PADDLE_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define PADDLE_MULTIVERSION
#endif

// By nvcc, for the host and for a card; by every other compiler, for the host alone.
#if defined(__CUDACC__)
#define PADDLE_HD __host__ __device__
#else
#define PADDLE_HD
#endif

// The same for a function so short that it is inlined, into each version of its caller.
#define PADDLE_HD_INLINE [[gnu::always_inline]] inline PADDLE_HD
