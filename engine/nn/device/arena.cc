#include "engine/nn/device/arena.h"

namespace paddle::nn {
namespace {

constexpr std::size_t kAlignment = 256;                // bytes
constexpr std::size_t kCopiedForNothing = 64U << 10U;  // bytes that cost less than another order

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<bool> Arena::settle() {
  bool grows = false;
  for (Section& section : sections_) {
    PADDLE_CHECK(section.used <= section.wanted);
    if (section.wanted <= section.capacity) continue;
    section.capacity = section.wanted;
    grows = true;
  }
  if (!grows) return false;
  std::size_t bytes = 0;
  for (Section& section : sections_) {
    section.offset = bytes;
    bytes += aligned(section.capacity);
  }
  if (Status reserved = reserve(bytes); !reserved) {
    for (Section& section : sections_) section.capacity = 0;
    return std::move(reserved).error();
  }
  return true;
}

Status Arena::reserve(std::size_t bytes) {
  PADDLE_TRY_STATUS(card_.reserve(bytes));
  PADDLE_TRY_STATUS(host_.reserve(bytes));
  return {};
}

template <class Copy>
void Arena::for_runs(Copy copy) const {
  std::size_t begin = 0;
  std::size_t end = 0;
  for (const Section& section : sections_) {
    if (section.used == 0) continue;
    if (section.offset > end + kCopiedForNothing) {
      if (end > begin) copy(begin, end - begin);
      begin = section.offset;
    }
    if (end == begin) begin = section.offset;
    end = section.offset + section.used;
  }
  if (end > begin) copy(begin, end - begin);
}

void Arena::upload(device::StreamHandle stream) const {
  for_runs([&](std::size_t offset, std::size_t bytes) {
    device_.upload(stream, host_.data() + offset, card_.data() + offset, bytes);
  });
}

void Arena::download(device::StreamHandle stream) const {
  for_runs([&](std::size_t offset, std::size_t bytes) {
    device_.download(stream, card_.data() + offset, host_.data() + offset, bytes);
  });
}

}  // namespace paddle::nn
