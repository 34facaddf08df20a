// One trainer's push for one batch, kept as the bytes that arrived until it is applied.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/wire.pb.h"

namespace paddle::pserver {

// Rows of one table in a request: ids, and `width` floats for each.
struct RowSegment {
  std::uint32_t parameter = 0;
  std::uint64_t width = 0;
  std::span<const std::uint64_t> ids;
  std::span<const float> floats;  // ids.size() x width, including a push's notes; empty in a pull
};

// Floats of a row, by parameter; in a push they include its notes. 0 if the parameter is no table
// of this shard.
using RowWidths = std::span<const std::uint64_t>;

// Reads the tail of PullRows (has_floats false) or PushRows: kData unless parameters ascend, ids
// ascend strictly and the lengths agree exactly. The spans point into the tail.
Result<std::vector<RowSegment>> read_segments(
    const google::protobuf::RepeatedPtrField<wire::Segment>& segments, ByteSpan tail,
    RowWidths widths, bool has_floats);

// Whether a push carries a dense gradient. With node_groups, one trainer of each node pushes the
// sum of its node's gradients, and the others push none.
inline bool carries_dense(const wire::PushDense& message) {
  return !message.has_node_samples() || message.node_samples() > 0 || message.count() > 0;
}
inline bool carries_dense(const wire::PushRows& /*message*/) {
  return false;
}

// A gradient in consecutive parts.
using GradientParts = std::vector<std::span<const float>>;

class Push {
 public:
  std::uint64_t sequence = 0;
  std::uint64_t samples = 0;
  // Samples behind a dense gradient that is the sum of a node's trainers; 0 if another trainer of
  // the node pushes it.
  std::optional<std::uint64_t> node_samples;
  std::uint64_t batches = 1;  // merged into this push
  double cost_sum = 0;
  std::uint64_t bytes = 0;
  std::uint32_t parts = 1;
  std::uint32_t parts_taken = 0;
  bool stop = false;  // its trainer asks the job to stop
  bool asks_savepoint = false;
  std::uint64_t whole_savepoint = 0;  // the newest savepoint of all shards that its trainer knows

  bool complete() const { return parts_taken == parts; }
  // The number of samples behind the gradient, which is its weight in a merge.
  std::uint64_t weight() const { return node_samples.value_or(samples); }

  // Takes the next part. On kData nothing has changed. `size` is the number of the shard's dense
  // elements.
  Status add_dense(std::uint64_t offset, std::uint64_t count, std::uint64_t size, Bytes&& tail);
  // Takes the whole push as consecutive parts in the caller's memory, without copying them.
  void lend_dense(std::uint64_t size, GradientParts parts);
  const GradientParts& lent() const { return lent_; }
  // Takes a whole push that carries no gradient: its weight is 0.
  void take_without_dense();
  bool carries_dense() const { return !is_without_dense_; }
  Status add_rows(const wire::PushRows& head, RowWidths widths, Bytes&& tail);

  // The gradient of a complete dense push; copied into `scratch` if it arrived in parts.
  std::span<const float> dense(std::vector<float>& scratch) const;
  std::span<const RowSegment> segments() const { return segments_; }

 private:
  std::vector<Bytes> tails_;
  GradientParts lent_;
  std::uint64_t dense_count_ = 0;
  bool is_without_dense_ = false;
  std::vector<RowSegment> segments_;
};

}  // namespace paddle::pserver
