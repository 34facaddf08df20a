// A machine with GPUs as far as its files tell: a folder of made-up ones lies over /proc/driver in
// a mount namespace of paddlectl, and of the nodes that it starts.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {

class GpuMachine {
 public:
  // The cluster outlives it.
  GpuMachine(LocalCluster& cluster, std::string paddlectl)
      : cluster_(cluster), paddlectl_(std::move(paddlectl)) {
    cluster.folder().write("driver/nvidia/version",
                           "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sat Aug\n");
  }

  // They are numbered in the order of their addresses.
  void add_gpu(const std::string& address, const std::string& uuid) {
    cluster_.folder().write("driver/nvidia/gpus/" + address + "/information",
                            "Model: \t\t Tesla T4\nGPU UUID: \t " + uuid + "\n");
  }
  // Whether this machine lets us make a mount namespace.
  bool can_be_made() { return run({"version"}).code == 0; }
  Outcome run(const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"/usr/bin/unshare",
                                 ::geteuid() == 0 ? "-m" : "-rm",
                                 "/bin/sh",
                                 "-c",
                                 "mount --bind \"$0\" /proc/driver && exec \"$@\"",
                                 cluster_.folder() / "driver",
                                 "/usr/bin/env",
                                 "-C",
                                 cluster_.folder().path(),
                                 paddlectl_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Process process(all, cluster_.folder() / fmt::format("gpus-{}.txt", runs_++),
                    {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
    const auto code = process.wait();
    return {code.value_or(-1), process.output()};
  }

 private:
  LocalCluster& cluster_;
  std::string paddlectl_;
  int runs_ = 0;
};

}  // namespace paddle::test
