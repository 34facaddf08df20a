// MPI_Allreduce: mpirun -np RANKS mpi_allreduce NAME.
#include <mpi.h>

#include <cstring>

#include "bench/allreduce/timing.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int self = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  paddle::bench::measure(argc > 1 ? argv[1] : "mpi", self, ranks,
                         [](float* values, std::size_t count) {
                           MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT,
                                         MPI_SUM, MPI_COMM_WORLD);
                         });
  MPI_Finalize();
  return 0;
}
