// Exits with 0 if OpenBLAS protects its buffers, so that two threads may multiply at the same time.
#include <cblas.h>

int main() { return openblas_get_parallel() == OPENBLAS_SEQUENTIAL ? 1 : 0; }
