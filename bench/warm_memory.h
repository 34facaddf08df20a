// Memory that the host has already given to this machine.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace paddle::bench {

// Another process writes `gib` GiB of memory, holds them, and releases them on request or at the
// end. In a virtual machine, memory that the guest never had, or gave back after seconds of disuse,
// takes the host 5 ms per 2 MiB to provide, many times the cost of clearing it: that is the host's
// time, not the benchmark's.
class WarmMemory {
 public:
  explicit WarmMemory(std::size_t gib) : blocks_(gib * kBlocksPerGib) {
    int to_child[2] = {-1, -1};
    int to_parent[2] = {-1, -1};
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(to_parent, O_CLOEXEC) != 0) return;
    ::signal(SIGPIPE, SIG_IGN);  // release() may be called after the child's end
    child_ = ::fork();
    if (child_ == 0) {
      ::close(to_child[1]);
      hold(to_child[0], to_parent[1]);
    }
    ::close(to_child[0]);
    ::close(to_parent[1]);
    commands_ = to_child[1];
    char written = 0;
    ready_ = ::read(to_parent[0], &written, 1) == 1;
    ::close(to_parent[0]);
  }
  ~WarmMemory() {
    if (commands_ >= 0) ::close(commands_);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }
  WarmMemory(const WarmMemory&) = delete;
  WarmMemory& operator=(const WarmMemory&) = delete;

  bool ready() const { return ready_; }
  // Releases memory until `bytes` are released in all.
  void release(std::size_t bytes) {
    const char one = 0;
    for (; released_ < blocks_ && released_ * kBlockBytes < bytes; ++released_) {
      if (::write(commands_, &one, 1) != 1) return;
    }
  }

 private:
  static constexpr std::size_t kBlockBytes = 64U << 20U;
  static constexpr std::size_t kBlocksPerGib = (1ULL << 30U) / kBlockBytes;

  [[noreturn]] void hold(int commands, int written) {
    std::vector<void*> blocks(blocks_);
    for (void*& block : blocks) {
      block =
          ::mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (block == MAP_FAILED) ::_exit(1);
      ::madvise(block, kBlockBytes, MADV_HUGEPAGE);
      std::memset(block, 1, kBlockBytes);
    }
    char command = 0;
    if (::write(written, &command, 1) != 1) ::_exit(1);
    while (::read(commands, &command, 1) == 1) {
      ::munmap(blocks.back(), kBlockBytes);
      blocks.pop_back();
    }
    ::_exit(0);
  }

  std::size_t blocks_;
  std::size_t released_ = 0;
  pid_t child_ = -1;
  int commands_ = -1;
  bool ready_ = false;
};

}  // namespace paddle::bench
