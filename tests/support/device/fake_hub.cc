#include "tests/support/device/fake_hub.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/support/device/fake_memory.h"

namespace paddle::test {
namespace {

constexpr std::size_t kChunk = 65536;  // floats
constexpr std::uint64_t kChunks = 2;   // of each rank: one is written while others read the other

}  // namespace

// Zero, as new pages are, is a legal state of both.
struct FakeHub::Shared {
  std::atomic<std::uint32_t> ranks;
  std::atomic<std::uint32_t> joined;
};
struct FakeHub::Rank {
  std::atomic<bool> is_there;
  std::atomic<std::uint64_t> written;  // chunks
  std::atomic<std::uint64_t> taken;
  struct Chunk {
    std::size_t count;  // of the sum that it is a part of
    float values[kChunk];
  } chunks[kChunks];
};

UniqueFd FakeHub::make(device::CommunicatorId& id) {
  UniqueFd fd(::memfd_create("fake_hub", MFD_CLOEXEC));
  if (!fd) violation("no memory can be shared");
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd.get());
  id = {};
  std::memcpy(id.data(), path.data(), path.size());
  return fd;
}

Result<std::unique_ptr<FakeHub>> FakeHub::join(const device::CommunicatorId& id, std::uint32_t rank,
                                               std::uint32_t ranks) {
  if (rank >= ranks || id.back() != std::byte{0}) {
    return Error{Errc::kUsage, "there is no rank " + std::to_string(rank) + " of " +
                                   std::to_string(ranks) + ", or no such communicator"};
  }
  const UniqueFd fd(::open(reinterpret_cast<const char*>(id.data()), O_RDWR | O_CLOEXEC));
  if (!fd) return system_error(Errc::kFailed, "joining the sums between cards");
  const std::size_t bytes = sizeof(Shared) + ranks * sizeof(Rank);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) violation("no memory can be shared");
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) violation("no memory can be shared");
  std::unique_ptr<FakeHub> hub(new FakeHub(static_cast<std::byte*>(memory), rank, ranks));
  std::uint32_t expected = 0;
  if (!hub->shared().ranks.compare_exchange_strong(expected, ranks) && expected != ranks) {
    violation("ranks join that count " + std::to_string(expected) + " and " +
              std::to_string(ranks) + " ranks");
  }
  if (hub->rank(rank).is_there.exchange(true)) {
    violation("rank " + std::to_string(rank) + " joins twice");
  }
  ++hub->shared().joined;
  return hub;
}

FakeHub::~FakeHub() {
  ::munmap(memory_, sizeof(Shared) + ranks_ * sizeof(Rank));
}

FakeHub::Shared& FakeHub::shared() const {
  return *reinterpret_cast<Shared*>(memory_);
}

FakeHub::Rank& FakeHub::rank(std::uint32_t index) const {
  return *reinterpret_cast<Rank*>(memory_ + sizeof(Shared) + index * sizeof(Rank));
}

bool FakeHub::have_all_joined() const {
  return shared().joined == ranks_;
}

bool FakeHub::have_all(std::atomic<std::uint64_t> Rank::*chunks, std::uint64_t count) const {
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (rank(r).*chunks < count) return false;
  }
  return true;
}

bool FakeHub::try_sum(SumProgress& progress, float* values, std::size_t count) {
  Rank& own = rank(rank_);
  while (progress.offset < count) {
    const std::size_t size = std::min(kChunk, count - progress.offset);
    float* const chunk = values + progress.offset;
    if (!progress.is_written) {
      const std::uint64_t number = own.written;
      if (number >= kChunks && !have_all(&Rank::taken, number - kChunks + 1)) return false;
      own.chunks[number % kChunks].count = count;
      std::copy_n(chunk, size, own.chunks[number % kChunks].values);
      own.written = number + 1;
      progress.is_written = true;
    }
    const std::uint64_t number = own.taken;
    if (!have_all(&Rank::written, number + 1)) return false;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      const Rank::Chunk& part = rank(r).chunks[number % kChunks];
      if (part.count != count) violation("ranks sum unlike numbers of values");
      for (std::size_t i = 0; i < size; ++i) {
        chunk[i] = r == 0 ? part.values[i] : chunk[i] + part.values[i];
      }
    }
    own.taken = number + 1;
    progress = {progress.offset + size, false};
  }
  return true;
}

}  // namespace paddle::test
