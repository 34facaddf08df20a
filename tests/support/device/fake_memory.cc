#include "tests/support/device/fake_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace paddle::test {
namespace {

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

bool is_poison(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte b) { return b == std::byte{kPoison}; });
}

}  // namespace

void violation(const std::string& sentence) {
  std::fprintf(stderr, "fake device: %s\n", sentence.c_str());
  std::fflush(stderr);
  std::abort();
}

FakeMemory::~FakeMemory() {
  for (const Blocks* blocks : {&blocks_, &released_}) {
    for (const auto& [begin, block] : *blocks) {
      ::munmap(block.pages - page_size(), block.page_bytes + 2 * page_size());
    }
  }
}

std::byte* FakeMemory::allocate(std::size_t bytes) {
  if (bytes == 0) violation("0 bytes of " + name_ + " are allocated");
  Block block{bytes, nullptr, rounded_up(bytes, page_size())};
  void* const mapped = ::mmap(nullptr, block.page_bytes + 2 * page_size(), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) violation("this machine has no memory left");
  block.pages = static_cast<std::byte*>(mapped) + page_size();
  ::mprotect(block.pages, block.page_bytes, PROT_READ | PROT_WRITE);
  std::memset(block.pages, kPoison, block.page_bytes);
  if (access_ == Access::kWhileOpen) ::mprotect(block.pages, block.page_bytes, PROT_NONE);
  std::byte* const begin = block.pages + block.page_bytes - rounded_up(bytes, kBlockAlignment);
  blocks_[begin] = block;
  used_ += bytes;
  return begin;
}

void FakeMemory::release(std::byte* memory) {
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) {
    if (was_released(memory)) violation("memory of " + name_ + " is released twice");
    violation("memory is released that " + name_ + " has not given");
  }
  const Block block = found->second;
  ::mprotect(block.pages, block.page_bytes, PROT_READ | PROT_WRITE);
  if (!is_poison(block.pages, memory)) violation("memory before a block was written");
  if (!is_poison(memory + block.bytes, block.pages + block.page_bytes)) {
    violation("memory behind a block was written");
  }
  ::mmap(block.pages, block.page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  used_ -= block.bytes;
  blocks_.erase(found);
  released_[memory] = block;
}

FakeMemory::Blocks::const_iterator FakeMemory::find(const Blocks& blocks, const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  auto found = blocks.upper_bound(byte);
  if (found == blocks.begin()) return blocks.end();
  --found;
  return byte <= found->first + found->second.bytes ? found : blocks.end();
}

std::byte* FakeMemory::block_of(const void* address) const {
  const auto found = find(blocks_, address);
  return found == blocks_.end() ? nullptr : const_cast<std::byte*>(found->first);
}

bool FakeMemory::was_released(const void* address) const {
  return find(released_, address) != released_.end();
}

void FakeMemory::expect_within(const void* from, std::size_t bytes, const std::string& user) const {
  const auto found = find(blocks_, from);
  if (found == blocks_.end()) {
    violation(user + (was_released(from) ? " names memory of " + name_ + " that was released"
                                         : " names memory that is not of " + name_));
  }
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(from) - found->first);
  if (bytes > found->second.bytes - offset) violation(user + " goes past its memory's end");
}

void FakeMemory::protect(const Block& block, bool is_open) const {
  if (access_ == Access::kAlways) return;
  ::mprotect(block.pages, block.page_bytes, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void FakeMemory::open(const std::vector<const std::byte*>& begins) {
  for (const std::byte* begin : begins) {
    const auto found = blocks_.find(begin);
    if (found != blocks_.end() && open_.insert(begin).second) protect(found->second, true);
  }
}

void FakeMemory::open_all() {
  for (const auto& [begin, block] : blocks_) {
    if (open_.insert(begin).second) protect(block, true);
  }
}

void FakeMemory::close() {
  for (const std::byte* begin : open_) protect(blocks_.at(begin), false);
  open_.clear();
}

}  // namespace paddle::test
