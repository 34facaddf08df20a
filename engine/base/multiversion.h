// PADDLE_MULTIVERSION: one function compiled for several instruction sets, picked when the program
// starts.
#pragma once

// Sanitizers are not ready when the picking runs, so their builds use the baseline.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PADDLE_MULTIVERSION __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define PADDLE_MULTIVERSION
#endif
