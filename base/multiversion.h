// PADDLE_MULTIVERSION: one function compiled for several instruction sets, picked when the program
// starts.
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
