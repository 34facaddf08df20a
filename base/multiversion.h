// Macros before a function that compile it for more than one target: for several instruction sets,
// one of which is chosen when the program starts, or for the host and a card.
#pragma once

// The choice is made before a sanitizer is initialised, so builds with sanitizers use the baseline.
// The level x86-64-v4 (AVX-512 F, BW, CD, DQ, VL) tests CPU features; a CPU's name in its place
// would test vendor and model.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PADDLE_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define PADDLE_MULTIVERSION
#endif

// nvcc compiles the function for the host and for a card, every other compiler for the host only.
#if defined(__CUDACC__)
#define PADDLE_HD __host__ __device__
#else
#define PADDLE_HD
#endif

// PADDLE_HD for a short function, which is inlined into each version of its caller.
#define PADDLE_HD_INLINE [[gnu::always_inline]] inline PADDLE_HD
