// Facts about this machine's NVIDIA GPUs, their driver and their libraries. They are read from
// files; no library is loaded.
#pragma once

#include <string>
#include <vector>

#include "proto/agent.pb.h"

namespace paddle::agent {

// Folders, or glob(3) patterns for folders, that paddle-gpu searches for libraries by default when
// the user's home is `home`.
std::vector<std::string> library_folders(const std::string& home);

struct GpuPlaces {
  std::string driver;
  std::vector<std::string> libraries;
};
GpuPlaces gpu_places();  // on this machine

// Adds the versions of the driver and the libraries, and the GPUs that the driver does not exclude,
// in the order of their PCI addresses, which is the order of nvidia-smi's numbers.
void add_gpu_facts(const GpuPlaces& places, wire::agent::Facts& facts);

}  // namespace paddle::agent
