#include "engine/gpu/arena.h"

#include <algorithm>

namespace paddle::nn {
namespace {

constexpr std::size_t kAlignment = 256;                // bytes
constexpr std::size_t kCopiedForNothing = 64U << 10U;  // bytes; cheaper to copy than a command

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

bool Arena::has_room() const {
  return std::ranges::all_of(
      sections_, [](const Section& section) { return section.wanted <= section.capacity; });
}

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

Result<bool> Arena::settle_as(const Arena& other) {
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    sections_[i].wanted = std::max(sections_[i].wanted, other.sections_[i].capacity);
  }
  return settle();
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

Result<Uploads> Uploads::make(device::Device& device, std::size_t sections,
                              device::StreamHandle compute) {
  PADDLE_TRY(device::Stream copies, device::Stream::open(device));
  Uploads uploads(device, std::move(copies), compute);
  for (std::size_t i = 0; i < kArenas; ++i) {
    PADDLE_TRY(device::Event sent, device::Event::make(device));
    PADDLE_TRY(device::Event computed, device::Event::make(device));
    uploads.turns_.push_back({Arena(device, sections), std::move(sent), std::move(computed)});
  }
  return uploads;
}

Result<Arena*> Uploads::take(TimePoint deadline) {
  turn_ = (turn_ + 1) % kArenas;
  PADDLE_TRY_STATUS(free(turns_[turn_], deadline));
  return &turns_[turn_].arena;
}

Status Uploads::settle(TimePoint deadline) {
  PADDLE_TRY_STATUS(turns_[turn_].arena.settle());
  for (Turn& turn : turns_) {
    PADDLE_TRY_STATUS(free(turn, deadline));
    PADDLE_TRY_STATUS(turn.arena.settle_as(turns_[turn_].arena));
  }
  return {};
}

void Uploads::send() {
  Turn& turn = turns_[turn_];
  turn.arena.upload(copies_.handle());
  device_->record(copies_.handle(), turn.sent.handle());
  turn.is_sent = true;
}

void Uploads::release() {
  Turn& turn = turns_[turn_];
  device_->record(compute_, turn.computed.handle());
  turn.is_lent = true;
}

Status Uploads::free(Turn& turn, TimePoint deadline) {
  const device::Event& last = turn.is_lent ? turn.computed : turn.sent;
  if (turn.is_sent) PADDLE_TRY_STATUS(device_->wait(last.handle(), deadline));
  turn.is_sent = turn.is_lent = false;
  return {};
}

}  // namespace paddle::nn
