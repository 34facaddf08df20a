// Ends with 0 where two threads may multiply at once: where OpenBLAS guards its buffers.
#include <cblas.h>

int main() { return openblas_get_parallel() == OPENBLAS_SEQUENTIAL ? 1 : 0; }
