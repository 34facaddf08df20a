// The NVIDIA GPUs of this machine, their driver and libraries, from files alone: none is loaded.
#pragma once

#include <string>
#include <vector>

#include "proto/agent.pb.h"

namespace paddle::agent {

struct GpuPlaces {
  std::string driver = "/proc/driver/nvidia";
  // Folders, or patterns of glob(3) for them: where paddle-gpu looks for libraries by itself.
  std::vector<std::string> libraries = {"/usr/lib/x86_64-linux-gnu",
                                        "/usr/lib64",
                                        "/usr/lib",
                                        "/usr/local/nvidia/lib64",
                                        "/usr/local/cuda/lib64",
                                        "/usr/local/cuda-*/lib64",
                                        "/usr/lib/python3*/*-packages/nvidia/*/lib",
                                        "/usr/local/lib/python3*/*-packages/nvidia/*/lib"};
};

// GPUs in the order of their PCI addresses, which is that of nvidia-smi's numbers. Those that the
// driver leaves out are left out.
void add_gpu_facts(const GpuPlaces& places, wire::agent::Facts& facts);

}  // namespace paddle::agent
