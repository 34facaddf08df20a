// gloo's all-reduces over its TCP transport: gloo_allreduce RANKS ring|ring_chunked|hd|bcube.
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/allreduce/timing.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: gloo_allreduce RANKS ring|ring_chunked|hd|bcube\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]);
  const std::string algorithm = argv[2];
  char folder[] = "/tmp/gloo-bench-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  int self = 0;
  for (int rank = 1; rank < ranks && self == 0; ++rank) {
    if (::fork() == 0) self = rank;
  }
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(self, ranks);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  context->connectFullMesh(store, device);

  // The old interface binds an algorithm to its memory.
  std::map<std::pair<float*, std::size_t>, std::unique_ptr<gloo::Algorithm>> bound;
  const auto old = [&](float* values, std::size_t count) {
    auto& one = bound[{values, count}];
    if (one == nullptr) {
      const std::vector<float*> pointers{values};
      const int size = static_cast<int>(count);
      if (algorithm == "ring_chunked") {
        one = std::make_unique<gloo::AllreduceRingChunked<float>>(context, pointers, size);
      } else {
        one = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, pointers, size);
      }
    }
    one->run();
  };
  const auto current = [&](float* values, std::size_t count) {
    gloo::AllreduceOptions options(context);
    options.setOutput(values, count);
    options.setAlgorithm(algorithm == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                              : gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction([](void* sum, const void* a, const void* b, std::size_t n) {
      gloo::sum<float>(static_cast<float*>(sum), static_cast<const float*>(a),
                       static_cast<const float*>(b), n);
    });
    gloo::allreduce(options);
  };
  const bool is_old = algorithm == "ring_chunked" || algorithm == "hd";
  paddle::bench::measure("gloo-" + algorithm, self, ranks,
                         is_old ? paddle::bench::AllReduce(old) : current);
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  if (self != 0) ::_exit(0);
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed |= status;
  ::execlp("rm", "rm", "-rf", folder, static_cast<char*>(nullptr));
  return 1;
}
