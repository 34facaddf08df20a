#include "tests/support/device/fake_streams.h"

#include <algorithm>
#include <utility>

namespace paddle::test {
namespace {

bool is_runnable(const FakeStream& stream) {
  if (stream.orders.empty() || stream.is_stuck || stream.is_waiting) return false;
  const auto* const wait = std::get_if<WaitFor>(&stream.orders.front().command);
  return wait == nullptr || wait->mark->is_done;
}

void drop_orders_of(FakeStream& stream) {
  for (const Order& order : stream.orders) {
    if (const auto* const reach = std::get_if<Reach>(&order.command)) reach->mark->stream = nullptr;
  }
  stream.orders.clear();
}

}  // namespace

FakeStream* FakeStreams::open() {
  streams_.push_back(std::make_unique<FakeStream>());
  return streams_.back().get();
}

bool FakeStreams::has(const void* stream) const {
  return std::ranges::any_of(streams_, [&](const auto& own) { return own.get() == stream; });
}

bool FakeStreams::close(FakeStream* stream) {
  const auto end = std::make_shared<Mark>(Mark{stream});
  stream->orders.push_back({Reach{end}});
  const bool has_come = run_until(*end);
  drop_orders_of(*stream);
  std::erase_if(streams_, [&](const auto& own) { return own.get() == stream; });
  return has_come;
}

void FakeStreams::give(FakeStream* stream, Order order) {
  stream->last_given = std::max(stream->last_given, order.number);  // marks have none
  stream->orders.push_back(std::move(order));
  if (seed_ == kLate || seed_ == kNewestFirst) return;
  try_again();
  const std::uint64_t most = seed_ == kAtOnce ? UINT64_MAX : rng_.below(4);
  for (std::uint64_t i = 0; i < most; ++i) {
    const auto able = runnable();
    if (able.empty()) return;
    run_first(*able[rng_.below(able.size())]);
  }
}

void FakeStreams::try_again() {
  for (const auto& stream : streams_) stream->is_waiting = false;
}

bool FakeStreams::run_until(const Mark& mark) {
  try_again();
  while (!mark.is_done) {
    FakeStream* const stream = choose(mark);
    if (stream == nullptr) return false;
    run_first(*stream);
  }
  return true;
}

void FakeStreams::run_towards(const Mark& mark) {
  try_again();
  FakeStream* const stream = mark.is_done ? nullptr : choose(mark);
  if (stream != nullptr) run_first(*stream);
}

FakeStream* FakeStreams::choose(const Mark& wanted) {
  if (seed_ == kLate || seed_ == kAtOnce) {
    FakeStream* stream = wanted.stream;
    while (stream == nullptr || !is_runnable(*stream)) {
      if (stream == nullptr || stream->orders.empty() || stream->is_stuck || stream->is_waiting) {
        return nullptr;
      }
      stream = std::get<WaitFor>(stream->orders.front().command).mark->stream;
    }
    return stream;
  }
  const auto able = runnable();
  if (able.empty()) return nullptr;
  if (seed_ == kNewestFirst) return *std::ranges::max_element(able, {}, &FakeStream::last_given);
  return able[rng_.below(able.size())];
}

void FakeStreams::run_first(FakeStream& stream) {
  const Order& order = stream.orders.front();
  const Ran ran = run_(order);
  if (ran == Ran::kBroke) return drop_orders();
  stream.is_stuck = ran == Ran::kNeverEnds;
  stream.is_waiting = ran == Ran::kNotYet;
  if (ran != Ran::kDone) return;
  if (const auto* const reach = std::get_if<Reach>(&order.command)) reach->mark->is_done = true;
  stream.orders.pop_front();
}

std::vector<FakeStream*> FakeStreams::runnable() const {
  std::vector<FakeStream*> able;
  for (const auto& stream : streams_) {
    if (is_runnable(*stream)) able.push_back(stream.get());
  }
  return able;
}

bool FakeStreams::any_of(const std::function<bool(const Order&)>& is) const {
  return std::ranges::any_of(
      streams_, [&](const auto& stream) { return std::ranges::any_of(stream->orders, is); });
}

void FakeStreams::drop_orders() {
  for (const auto& stream : streams_) drop_orders_of(*stream);
}

}  // namespace paddle::test
