// The NVIDIA GPUs of this machine, their driver and libraries, from files alone: none is loaded.
#pragma once

#include <string>
#include <vector>

#include "proto/agent.pb.h"

namespace paddle::agent {

// Folders, or patterns of glob(3) for them: where paddle-gpu looks for libraries by itself, of a
// user with this home.
std::vector<std::string> library_folders(const std::string& home);

struct GpuPlaces {
  std::string driver;
  std::vector<std::string> libraries;
};
GpuPlaces gpu_places();  // of this machine

// GPUs in the order of their PCI addresses, which is that of nvidia-smi's numbers. Those that the
// driver leaves out are left out.
void add_gpu_facts(const GpuPlaces& places, wire::agent::Facts& facts);

}  // namespace paddle::agent
