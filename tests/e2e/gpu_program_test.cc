// The program for GPUs beside the other: which libraries they need, and that it ends well without a
// GPU.
#include <elf.h>

#include <cstring>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"

namespace paddle::test {
namespace {

// A dynamic program's sections, by name.
class Elf {
 public:
  explicit Elf(const std::string& path) : bytes_(TemporaryFolder::read(path)) {}

  std::string section(const std::string& wanted) const {
    const auto head = at<Elf64_Ehdr>(0);
    const auto names = header(head, head.e_shstrndx);
    for (std::size_t i = 0; i < head.e_shnum; ++i) {
      const auto one = header(head, i);
      if (text(names.sh_offset + one.sh_name) != wanted || one.sh_type == SHT_NOBITS) continue;
      return bytes_.substr(one.sh_offset, one.sh_size);
    }
    return "";
  }
  std::set<std::string> libraries() const {
    const std::string dynamic = section(".dynamic");
    const std::string strings = section(".dynstr");
    std::set<std::string> found;
    for (std::size_t i = 0; i + sizeof(Elf64_Dyn) <= dynamic.size(); i += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry{};
      std::memcpy(&entry, dynamic.data() + i, sizeof entry);
      if (entry.d_tag == DT_NEEDED) found.insert(strings.c_str() + entry.d_un.d_val);
    }
    return found;
  }
  bool has(const std::string& wanted) const { return bytes_.find(wanted) != bytes_.npos; }
  // Strings of .dynstr that begin so.
  std::set<std::string> names(const std::string& prefix) const {
    std::set<std::string> found;
    const std::string strings = section(".dynstr");
    for (std::size_t i = 0; i < strings.size(); i += std::strlen(strings.c_str() + i) + 1) {
      const std::string name = strings.c_str() + i;
      if (name.starts_with(prefix)) found.insert(name);
    }
    return found;
  }

 private:
  template <class T>
  T at(std::size_t offset) const {
    T value{};
    if (offset + sizeof value <= bytes_.size())
      std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  Elf64_Shdr header(const Elf64_Ehdr& head, std::size_t index) const {
    return at<Elf64_Shdr>(head.e_shoff + index * sizeof(Elf64_Shdr));
  }
  std::string text(std::size_t offset) const {
    return offset < bytes_.size() ? bytes_.c_str() + offset : "";
  }

  std::string bytes_;
};

class GpuProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(GPU_PROGRAM).empty()) {
      GTEST_SKIP() << "paddle-gpu is not built: there is no nvcc";
    }
  }
  // Without a GPU: whatever this machine has, none is seen.
  std::string run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), GPU_PROGRAM);
    Process process(arguments, folder_ / "output", {"PATH=/usr/bin:/bin", "CUDA_VISIBLE_DEVICES="});
    const auto code = process.wait();
    return fmt::format("{} {}", code.value_or(-1), process.output());
  }

  TemporaryFolder folder_;
};

TEST(StaticProgram, Trap44PaddleHasNothingOfCuda) {
  const Elf paddle(PADDLE_PROGRAM);
  for (const char* const of : {"cudaMalloc", "cublasLtMatmul", "libcuda.so", "ncclAllReduce"}) {
    EXPECT_FALSE(paddle.has(of)) << of;
  }
  EXPECT_EQ(paddle.libraries().empty(), PADDLE_IS_STATIC != 0);
}

TEST_F(GpuProgram, Trap44NeedsGlibcAlone) {
  if (!PADDLE_IS_STATIC) GTEST_SKIP() << "PADDLE_STATIC is off";
  const Elf program(GPU_PROGRAM);
  ASSERT_FALSE(program.libraries().empty());
  const std::set<std::string> lawful = {"libc.so.6",       "libm.so.6",
                                        "libpthread.so.0", "libdl.so.2",
                                        "librt.so.1",      "ld-linux-x86-64.so.2",
                                        "libmvec.so.1",    "ld-linux-aarch64.so.1"};
  for (const std::string& library : program.libraries()) {
    EXPECT_TRUE(lawful.contains(library)) << library;
  }
  for (const std::string& version : program.names("GLIBC_2.")) {
    EXPECT_LE(std::stoi(version.substr(std::strlen("GLIBC_2."))), 35) << version;
  }
}

TEST_F(GpuProgram, TellsWhatItWouldUse) {
  const std::string version = run({"version"});
  EXPECT_TRUE(version.starts_with("0 ")) << version;
  for (const char* const line :
       {"    with_gpu: ON\n", "    gpu: ", "libcublasLt.so", "libnccl.so"}) {
    EXPECT_NE(version.find(line), version.npos) << line << "\n" << version;
  }
}

TEST_F(GpuProgram, Trap30WithoutAGpuItSaysWhatIsMissing) {
  const std::string config = "--config=" TEMPLATES_FOLDER "/ctr_dnn/job.toml";
  const std::string refused = run({"train", "--local", "--use_gpu", config});
  EXPECT_TRUE(refused.starts_with("7 ") || refused.starts_with("3 ")) << refused;
  EXPECT_NE(refused.find("NVIDIA driver"), refused.npos) << refused;
  EXPECT_NE(refused.find("device = \"cpu\" in [train]"), refused.npos) << refused;
}

// The build refuses them too, where warnings are errors.
TEST_F(GpuProgram, KernelsKeepTheirValuesInRegisters) {
  const std::string tool = "cuobjdump";
  Process process({"/usr/bin/env", tool, "-res-usage", GPU_PROGRAM}, folder_ / "usage",
                  {"PATH=/usr/bin:/bin:/usr/local/cuda/bin"});
  if (process.wait() != 0) GTEST_SKIP() << "there is no cuobjdump";
  const std::string usage = process.output();
  for (const char* const card : {"sm_80", "sm_90"}) {
    EXPECT_NE(usage.find(card), usage.npos) << card;
  }
  const std::string stack = " STACK:";
  std::size_t kernels = 0;
  for (auto at = usage.find(stack); at != usage.npos; at = usage.find(stack, at + 1), ++kernels) {
    EXPECT_EQ(usage.compare(at, stack.size() + 2, stack + "0 "), 0)
        << usage.substr(usage.rfind("Function", at), 300);
  }
  EXPECT_GE(kernels, 60U);
}

}  // namespace
}  // namespace paddle::test
