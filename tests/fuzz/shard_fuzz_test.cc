// An authenticated peer that lies: random requests with extreme numbers to dense and sparse shards,
// sync and async. Nothing may crash, and every answer must fit into its frame.
#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::pserver {
namespace {

constexpr std::uint32_t kTrainers = 2;

struct Seen {
  std::uint64_t refused = 0;
  std::uint64_t answered = 0;
  std::uint64_t pushed = 0;
};

// A number that is small and often valid, or at the edge of an integer width.
std::uint64_t number(Rng& rng) {
  constexpr std::array<std::uint64_t, 12> kEdges = {
      4,           24,          28,          31,          1ULL << 31U, (1ULL << 32U) - 1,
      1ULL << 32U, 1ULL << 61U, 1ULL << 62U, 1ULL << 63U, ~0ULL - 1,   ~0ULL};
  return rng.below(4) > 0 ? rng.below(4) : kEdges[rng.below(kEdges.size())];
}

std::uint32_t small_number(Rng& rng) {
  return static_cast<std::uint32_t>(number(rng));
}

void fill(wire::PushPart& part, Rng& rng) {
  part.set_part(rng.below(4) > 0 ? 0 : small_number(rng));
  part.set_parts(rng.below(4) > 0 ? 1 : small_number(rng));
  part.set_samples(number(rng));
  part.set_cost_sum(rng.below(8) > 0 ? 1 : std::numeric_limits<double>::quiet_NaN());
}

template <class Message>
void add_segments(Message& message, Rng& rng) {
  for (std::uint64_t left = rng.below(3); left > 0; --left) {
    auto* const segment = message.add_segments();
    segment->set_parameter(rng.below(4) > 0 ? 2 : small_number(rng));
    segment->set_count(number(rng));
  }
}

std::string head_of(FrameType type, std::uint64_t request, Rng& rng) {
  const auto text = [&](auto message) {
    message.set_request(request);
    return message.SerializeAsString();
  };
  switch (type) {
    case FrameType::kLoadBegin: {
      wire::LoadBegin message;
      message.set_step(number(rng));
      message.set_passes_finished(number(rng));
      for (std::uint64_t left = rng.below(4); left > 0; --left) message.add_cursors(number(rng));
      return text(message);
    }
    case FrameType::kPutDense: {
      wire::PutDense message;
      message.set_offset(number(rng));
      message.set_count(number(rng));
      message.set_plane(small_number(rng));
      message.set_update_count(number(rng));
      return text(message);
    }
    case FrameType::kPutRows: {
      wire::PutRows message;
      message.set_parameter(rng.below(4) > 0 ? 2 : small_number(rng));
      message.set_count(number(rng));
      message.set_state_width(rng.below(4) > 0 ? 1 : small_number(rng));
      return text(message);
    }
    case FrameType::kPullDense: {
      wire::PullDense message;
      message.set_offset(number(rng));
      message.set_count(number(rng));
      message.set_plane(small_number(rng));
      return text(message);
    }
    case FrameType::kPullRows: {
      wire::PullRows message;
      add_segments(message, rng);
      return text(message);
    }
    case FrameType::kPushDense: {
      wire::PushDense message;
      fill(*message.mutable_part(), rng);
      message.set_offset(rng.below(2) > 0 ? 0 : number(rng));
      message.set_count(rng.below(2) > 0 ? 28 : number(rng));
      return text(message);
    }
    case FrameType::kPushRows: {
      wire::PushRows message;
      fill(*message.mutable_part(), rng);
      add_segments(message, rng);
      return text(message);
    }
    case FrameType::kFinishPass: {
      wire::FinishPass message;
      message.set_pass(number(rng));
      return text(message);
    }
    case FrameType::kExportRows: {
      wire::ExportRows message;
      message.set_parameter(rng.below(4) > 0 ? 2 : small_number(rng));
      message.set_cursor(number(rng));
      message.set_rows_max(number(rng));
      return text(message);
    }
    default:
      return text(wire::Ready());
  }
}

// A tail of whole rows, of the whole shard, or of any size.
Bytes tail_of(Rng& rng) {
  constexpr std::array<std::size_t, 8> kSizes = {0, 8, 20, 28, 40, 112, 3, 200};
  Bytes tail(kSizes[rng.below(kSizes.size())]);
  for (std::byte& byte : tail) {
    byte = rng.below(8) > 0 ? std::byte{0} : static_cast<std::byte>(rng.next());
  }
  return tail;
}

class Target {
 public:
  Target(bool is_sparse, wire::Strategy strategy)
      : is_sparse_(is_sparse),
        shard_(ShardOptions{.make_policy = strategy::make_update_policy,
                            .is_sparse = is_sparse,
                            .num_gradient_servers = kTrainers,
                            .bytes_max = 1U << 20U}) {
    set_ = test::small_set("adagrad", kTrainers);
    set_.set_dense_strategy(strategy);
    set_.set_sparse_strategy(strategy);
  }

  void start(Rng& rng, Seen& seen) {
    for (std::uint32_t trainer = 0; trainer < kTrainers; ++trainer) {
      wire::Join join;
      join.set_request(++request_);
      join.set_is_sparse(is_sparse_);
      const std::string text = set_.SerializeAsString();
      Bytes tail;
      append_bytes(tail, std::span<const char>(text));
      send({Role::kTrainer, trainer}, FrameType::kJoin, join.SerializeAsString(), std::move(tail),
           seen);
    }
    if (rng.below(4) == 0) return;  // stays loading
    wire::Ready ready;
    ready.set_request(++request_);
    send({Role::kTrainer, 0}, FrameType::kReady, ready.SerializeAsString(), {}, seen);
  }

  void attack(Rng& rng, Seen& seen) {
    const auto type = rng.below(32) > 0 ? static_cast<FrameType>(17 + rng.below(11))
                                        : static_cast<FrameType>(rng.below(256));
    const std::uint64_t request = rng.below(16) > 0 ? ++request_ : number(rng);
    std::string head = head_of(type, request, rng);
    if (rng.below(16) == 0) head.resize(rng.below(40), 'x');
    sequence_ = rng.below(4) > 0 ? shard_.step() + 1 : number(rng);
    step_ = rng.below(4) > 0 ? shard_.step() : number(rng);
    const Role role = rng.below(8) > 0 ? Role::kTrainer : Role::kReader;
    send({role, static_cast<std::uint32_t>(rng.below(kTrainers))}, type, std::move(head),
         tail_of(rng), seen);
  }

 private:
  void send(NodeId sender, FrameType type, std::string head, Bytes tail, Seen& seen) {
    Frame frame;
    frame.header.type = static_cast<std::uint8_t>(type);
    frame.header.sender = sender;
    frame.header.sequence = sequence_;
    frame.header.step = step_;
    frame.head = std::move(head);
    frame.tail = std::move(tail);
    std::vector<net::Outgoing> out;
    shard_.on_frame(now_, pack(sender), std::move(frame), out);
    now_ += std::chrono::milliseconds(10);
    shard_.on_tick(now_, out);
    for (const net::Outgoing& outgoing : out) {
      encode_header(outgoing.frame);  // checks its sizes
      const auto answer = static_cast<FrameType>(outgoing.frame.header.type);
      ++(answer == FrameType::kRefused ? seen.refused : seen.answered);
      if (answer == FrameType::kPushed) ++seen.pushed;
    }
  }

  bool is_sparse_;
  wire::ParameterSet set_;
  Shard shard_;
  TimePoint now_;
  std::uint64_t request_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t step_ = 0;
};

TEST(ShardFuzz, LyingTrainersCrashNothingAndEveryAnswerFits) {
  constexpr int kTargets = 4000;
  constexpr int kFrames = 50;  // to each
  Rng rng(20240602);
  Seen seen;
  for (int i = 0; i < kTargets; ++i) {
    const auto strategy = rng.below(2) > 0 ? wire::STRATEGY_SYNC : wire::STRATEGY_ASYNC;
    Target target(rng.below(2) > 0, strategy);
    target.start(rng, seen);
    for (int frame = 0; frame < kFrames; ++frame) target.attack(rng, seen);
  }
  // The frames reach every layer.
  EXPECT_GT(seen.refused, 10'000U);
  EXPECT_GT(seen.answered, 10'000U);
  EXPECT_GT(seen.pushed, 100U);
}

}  // namespace
}  // namespace paddle::pserver
