#include "remote/agent/node/gpus.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

class GpuFacts : public testing::Test {
 protected:
  void add_gpu(const std::string& address, const std::string& more) {
    folder_.write("driver/gpus/" + address + "/information",
                  "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 117\n" + more);
  }
  void add_library(const std::string& link, const std::string& file) {
    folder_.write("lib/" + file, "");
    std::filesystem::create_symlink(file, folder_ / ("lib/" + link));
  }
  wire::agent::Facts facts() const {
    wire::agent::Facts facts;
    add_gpu_facts({folder_ / "driver", {folder_ / "none", folder_ / "lib"}}, facts);
    return facts;
  }
  test::TemporaryFolder folder_;
};

TEST_F(GpuFacts, AreInTheOrderOfNvidiaSmisNumbers) {
  add_gpu("0000:c1:00.0", "GPU UUID: \t GPU-2b\nGPU Excluded:\t No\n");
  add_gpu("0000:41:00.0", "GPU UUID: \t GPU-1a\n");
  add_gpu("0000:81:00.0", "GPU UUID: \t GPU-3c\nGPU Excluded:\t Yes\n");
  add_gpu("0000:e1:00.0", "GPU UUID: \t GPU-" + std::string(8, '?') + "\n");
  const auto found = facts();
  ASSERT_EQ(found.gpus_size(), 3);
  EXPECT_EQ(found.gpus(0).uuid(), "GPU-1a");
  EXPECT_EQ(found.gpus(0).model(), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(found.gpus(1).uuid(), "GPU-2b");
  EXPECT_EQ(found.gpus(2).uuid(), "") << "nobody has used it yet";
}

TEST_F(GpuFacts, TellTheVersionsOfDriverAndLibraries) {
  folder_.write("driver/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15\n"
                "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
  add_library("libcuda.so.1", "libcuda.so.550.54.14");
  add_library("libnccl.so.2", "libnccl.so.2.18.5");
  const auto found = facts();
  EXPECT_EQ(found.gpu_driver(), "535.104.05");
  EXPECT_EQ(found.cuda_library(), "550.54.14");
  EXPECT_EQ(found.nccl_library(), "2.18.5");
}

// pip installs plain files, whose names have the major version alone.
TEST_F(GpuFacts, KnowLibrariesThatPipHasInstalledForTheUser) {
  const std::string packages = ".local/lib/python3.11/site-packages/";
  folder_.write(packages + "nvidia/nccl/lib/libnccl.so.2", "");
  folder_.write(packages + "nvidia_nccl_cu13-2.27.7.dist-info/METADATA", "");
  folder_.write(packages + "nvidia/cu13/lib/libcublasLt.so.13", "");
  GpuPlaces places{folder_ / "driver", library_folders(folder_.path())};
  std::erase_if(places.libraries,
                [&](const std::string& one) { return !one.starts_with(folder_.path()); });
  wire::agent::Facts found;
  add_gpu_facts(places, found);
  EXPECT_EQ(found.nccl_library(), "2.27.7");
  EXPECT_EQ(found.cublas_library(), "13");
}

TEST_F(GpuFacts, OfAMachineWithoutAnyAreEmpty) {
  folder_.write("lib/libnccl.so.2", "a file that tells no version");
  const auto found = facts();
  EXPECT_EQ(found.gpus_size(), 0);
  EXPECT_EQ(found.gpu_driver() + found.cuda_library() + found.nccl_library(), "");
}

}  // namespace
}  // namespace paddle::agent
