// A Shard driven without a network: the test sends its trainers' requests.
#pragma once

#include <gtest/gtest.h>

#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::pserver {

class OneShard {
 public:
  explicit OneShard(wire::ParameterSet set, bool is_sparse = false, Duration grace = {},
                    std::uint64_t bytes_max = 1ULL << 40U)
      : OneShard(std::move(set),
                 {.is_sparse = is_sparse, .lost_trainer_grace = grace, .bytes_max = bytes_max},
                 is_sparse ? nullptr : std::make_shared<parameter::DenseLoan>()) {}
  // Completes the options; a loan is for a single trainer.
  OneShard(wire::ParameterSet set, const ShardOptions& options,
           std::shared_ptr<parameter::DenseLoan> given = nullptr)
      : set_(std::move(set)),
        is_sparse_(options.is_sparse),
        loan(set_.num_trainers() == 1 ? std::move(given) : nullptr),
        shard(complete(options, set_, loan)),
        expected_shard(options.index) {}

  template <class Message>
  std::vector<net::Outgoing> send(std::uint32_t trainer, FrameType type, Message message,
                                  Bytes tail = {}, std::uint64_t sequence = 0,
                                  std::uint64_t request = 0) {
    message.set_request(request != 0 ? request : ++request_);
    Frame frame;
    frame.header.type = static_cast<std::uint8_t>(type);
    frame.header.job_tag = 11;
    frame.header.sender = {Role::kTrainer, trainer};
    frame.header.incarnation = incarnation;
    frame.header.server_generation = type == FrameType::kJoin ? 0 : generation;
    frame.header.sequence = sequence;
    frame.header.step = step;
    frame.head = message.SerializeAsString();
    std::vector<net::Outgoing> out;
    if (lent_floats.empty() || type != FrameType::kPushDense) {
      frame.tail = std::move(tail);
      shard.on_frame(now, peer_base + trainer, std::move(frame), out);
    } else {
      send_lent(trainer, std::move(frame), tail, out);
    }
    net::keep_views(out);
    return out;
  }
  // Lends the gradient in parts, which change afterwards.
  void send_lent(std::uint32_t trainer, Frame frame, ByteSpan tail,
                 std::vector<net::Outgoing>& out) {
    std::vector<std::vector<float>> parts;
    for (const std::size_t count : lent_floats) {
      std::vector<float>& part = parts.emplace_back(count);
      std::copy_n(tail.data(), count * sizeof(float), reinterpret_cast<std::byte*>(part.data()));
      tail = tail.subspan(count * sizeof(float));
      loan->gradient.push_back(part);
    }
    shard.on_frame(now, peer_base + trainer, std::move(frame), out);
    loan->gradient.clear();
    for (auto& part : parts) std::fill(part.begin(), part.end(), 1e30F);
  }
  std::vector<net::Outgoing> join(std::uint32_t trainer) { return join_with(trainer, set_); }
  std::vector<net::Outgoing> join_with(std::uint32_t trainer, const wire::ParameterSet& set) {
    const std::string text = set.SerializeAsString();
    Bytes tail;
    append_bytes(tail, std::span<const char>(text));
    wire::Join message;
    message.set_shard(expected_shard);
    message.set_is_sparse(is_sparse_);
    return send(trainer, FrameType::kJoin, message, std::move(tail));
  }
  void start() {
    for (std::uint32_t id = 0; id < set_.num_trainers(); ++id) join(id);
    send(0, FrameType::kReady, wire::Ready());
  }
  std::vector<net::Outgoing> push(std::uint32_t trainer, std::uint64_t sequence, float gradient,
                                  std::uint64_t samples = 1) {
    wire::PushDense message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_samples(samples);
    message.mutable_part()->set_cost_sum(0.5);
    note_savepoints(*message.mutable_part());
    message.set_count(shard.dense()->size());
    Bytes tail;
    const std::vector<float> values(shard.dense()->size(), gradient);
    append_bytes(tail, std::span<const float>(values));
    return send(trainer, FrameType::kPushDense, message, std::move(tail), sequence);
  }
  std::vector<net::Outgoing> push_row(std::uint32_t trainer, std::uint64_t sequence,
                                      std::uint64_t id, float gradient) {
    wire::PushRows message;
    message.mutable_part()->set_parts(1);
    message.mutable_part()->set_samples(1);
    note_savepoints(*message.mutable_part());
    message.add_segments()->set_parameter(2);
    message.mutable_segments(0)->set_count(1);
    Bytes tail;
    append_bytes(tail, std::span<const std::uint64_t>(&id, 1));
    const std::vector<float> values(3, gradient);
    append_bytes(tail, std::span<const float>(values));
    return send(trainer, FrameType::kPushRows, message, std::move(tail), sequence);
  }
  std::vector<net::Outgoing> finish(std::uint32_t trainer, std::uint64_t pass,
                                    const Tally& tally = {}) {
    wire::FinishPass message;
    message.set_pass(pass);
    message.set_counts(tally.counts.size());
    message.set_sums(tally.sums.size());
    message.set_histograms(tally.histograms.size());
    message.set_grouped(tally.grouped.size());
    return send(trainer, FrameType::kFinishPass, message, encode(tally));
  }
  std::vector<float> values() const {
    return {shard.dense()->values().begin(), shard.dense()->values().end()};
  }

 private:
  static ShardOptions complete(ShardOptions options, const wire::ParameterSet& set,
                               const std::shared_ptr<parameter::DenseLoan>& loan) {
    options.make_policy = strategy::make_update_policy;
    options.num_gradient_servers = set.num_trainers();
    options.job_tag = 11;
    if (options.server_generation == 0) options.server_generation = kGeneration;
    options.loan = loan;
    return options;
  }
  void note_savepoints(wire::PushPart& part) const {
    part.set_savepoint(asks_savepoint);
    part.set_whole_savepoint(whole_savepoint);
  }

  static constexpr std::uint64_t kGeneration = 5;
  wire::ParameterSet set_;
  bool is_sparse_;
  std::uint64_t request_ = 0;

 public:
  std::shared_ptr<parameter::DenseLoan> loan;  // of a dense shard with one trainer
  Shard shard;
  TimePoint now;
  std::uint32_t incarnation = 0;
  std::uint64_t generation = kGeneration;  // in the frames sent
  std::uint64_t step = 0;
  bool asks_savepoint = false;  // with each push
  std::uint64_t whole_savepoint = 0;
  net::PeerId peer_base = 100;
  std::vector<std::size_t> lent_floats;  // of each part of a lent push; empty: pushes are in frames
  std::uint32_t expected_shard = 0;      // which port the trainer takes this one for
};

template <class Message>
Message parse(const net::Outgoing& outgoing) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(outgoing.frame.head));
  return message;
}

inline bool is(const std::vector<net::Outgoing>& out, FrameType type, std::size_t count = 1) {
  if (out.size() != count) return false;
  for (const auto& outgoing : out) {
    if (outgoing.frame.header.type != static_cast<std::uint8_t>(type)) return false;
  }
  return true;
}

inline void expect_refused(const std::vector<net::Outgoing>& out, wire::RefusalCode code,
                           const std::string& text) {
  ASSERT_TRUE(is(out, FrameType::kRefused));
  const auto refused = parse<wire::Refused>(out[0]);
  EXPECT_EQ(refused.code(), code) << refused.message();
  EXPECT_NE(refused.message().find(text), std::string::npos) << refused.message();
}

}  // namespace paddle::pserver
