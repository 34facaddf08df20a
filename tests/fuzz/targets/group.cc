// A rank of a group, and two others that have the job's keys and lie: their frames are those of the
// schedule, changed here and there. Without a change, all sums are right.
#include <deque>

#include "engine/group/group_core.h"
#include "tests/fuzz/input.h"

using namespace paddle;
using namespace paddle::collective;

namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kSelf = 1;
constexpr std::size_t kOperationsMax = 12;
constexpr std::size_t kFloatsMax = 12'000;
constexpr int kTurnsMax = 400;

struct Rank {
  explicit Rank(std::uint32_t rank)
      : core({.rank = rank, .size = kRanks, .names = {"0", "1", "2"}, .segment_bytes = 4096}) {}
  GroupCore core;
  std::deque<std::vector<float>> buckets = {};
  std::deque<std::uint64_t> steps = {};  // operations that exchange facts
};

class Play {
 public:
  explicit Play(fuzz::Input& input) : input_(input) {}

  void run() {
    for (std::size_t left = 1 + input_.below(kOperationsMax); left > 0; --left) post();
    for (int turn = 0; turn < kTurnsMax && !self().failure(); ++turn) {
      bool goes_on = false;
      for (std::uint32_t from = 0; from < kRanks; ++from) {
        for (std::uint32_t to = 0; to < kRanks; ++to) goes_on = carry(from, to) || goes_on;
      }
      now_ += std::chrono::milliseconds(100);
      self().on_tick(now_);
      if (!goes_on) break;
    }
    if (!is_intact_) return;
    if (self().failure() || !self().is_idle()) std::abort();
    for (const auto& bucket : ranks_[kSelf].buckets) {
      for (const float value : bucket) {
        if (value != 3 && value != 2 && value != 1) std::abort();  // 2: of a host
      }
    }
  }

 private:
  GroupCore& self() { return ranks_[kSelf].core; }

  // The same operation on every rank: sums of ones are 3, all else stays 1.
  void post() {
    const std::uint8_t kind = input_.below(8);
    if (kind >= 6) return post_levels(kind == 6);
    const std::size_t floats = kRanks * (input_.number() % (kFloatsMax / kRanks));
    for (Rank& rank : ranks_) {
      auto& bucket = rank.buckets.emplace_back(kind < 4 ? floats : 0, 1.0F);
      Operation operation{.data = std::as_writable_bytes(std::span(bucket))};
      operation.shape.bytes = 4 * bucket.size();
      operation.shape.pattern = static_cast<Pattern>(kind % 4);
      if (kind == 0) operation.weights.assign(kRanks, 1.0F);
      if (kind >= 4) operation = {.type = FrameType::kStep, .head = "x", .step = kind};
      const std::uint64_t number = rank.core.post(now_, std::move(operation));
      if (kind >= 4) rank.steps.push_back(number);
    }
  }

  // The same in two levels: rank 1 owns the slice of its host, on which rank 2 is too.
  void post_levels(bool reduces) {
    const auto hosts = std::make_shared<const Hosts>(std::vector<std::uint64_t>{1, 2, 2});
    for (Rank& rank : ranks_) {
      auto& bucket = rank.buckets.emplace_back(kFloatsMax, 1.0F);
      Operation operation{.data = std::as_writable_bytes(std::span(bucket))};
      operation.weights.assign(kRanks, 1.0F);
      operation.shape.bytes = 4 * bucket.size();
      operation.shape.hosts = hosts;
      operation.shape.pattern = reduces ? Pattern::kReduceOnHost : Pattern::kGatherBetween;
      rank.core.post(now_, Operation(operation));
      operation.shape.pattern = reduces ? Pattern::kReduceBetween : Pattern::kGatherOnHost;
      operation.follows = true;
      rank.core.post(now_, std::move(operation));
    }
  }

  bool carry(std::uint32_t from, std::uint32_t to) {
    if (from == to) return false;
    auto& held = held_[from][to];
    if (!held) {
      auto out = ranks_[from].core.next(to);
      if (!out) return false;
      held.emplace(
          Frame{out->header, std::move(out->head), Bytes(out->tail.begin(), out->tail.end())});
      ranks_[from].core.sent(now_, to);
      if (to == kSelf && input_.rarely(20)) change(*held);
    }
    DecodedHeader header;
    header.header = held->header;
    header.head_bytes = static_cast<std::uint32_t>(held->head.size());
    header.tail_bytes = static_cast<std::uint32_t>(held->tail.size());
    GroupCore& core = ranks_[to].core;
    switch (core.judge(now_, from, header)) {
      case GroupCore::Verdict::kLater:
        forget_facts(ranks_[to]);
        return false;
      case GroupCore::Verdict::kBroken:
        return false;
      case GroupCore::Verdict::kTake:
        break;
    }
    const auto place = core.place(from, held->header, held->tail.size());
    if (!place.empty()) {
      if (place.size() != held->tail.size()) std::abort();
      std::ranges::copy(held->tail, place.begin());
      held->tail.clear();
    }
    core.received(now_, from, *std::exchange(held, std::nullopt));
    forget_facts(ranks_[to]);
    return true;
  }

  // As the caller of a step does once it is done.
  static void forget_facts(Rank& rank) {
    while (!rank.steps.empty() && rank.core.is_done(rank.steps.front())) {
      rank.steps.pop_front();
      for (std::uint32_t other = 0; other < kRanks; ++other) rank.core.take_facts(other);
    }
  }

  void change(Frame& frame) {
    is_intact_ = false;
    switch (input_.below(8)) {
      case 0:
        frame.header.type = static_cast<std::uint8_t>(48 + input_.below(8));
        break;
      case 1:
        frame.header.sequence = input_.number();
        break;
      case 2:
        frame.header.step = input_.number();
        break;
      case 3:
        frame.header.flags = static_cast<std::uint16_t>(input_.number());
        break;
      case 4:
        frame.tail.resize(input_.number() % 70'000);
        break;
      case 5:
        frame.head = std::string(input_.text(input_.byte()));
        break;
      case 6:
        self().closed(now_, input_.flag() ? 0 : 2, {Errc::kUnreachable, "closed"});
        break;
      default:
        self().drain(input_.flag() ? 0 : 2);
    }
  }

  fuzz::Input& input_;
  TimePoint now_{std::chrono::hours(1)};
  std::array<Rank, kRanks> ranks_{Rank(0), Rank(1), Rank(2)};
  std::array<std::array<std::optional<Frame>, kRanks>, kRanks> held_;
  bool is_intact_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Play(input).run();
  return 0;
}
