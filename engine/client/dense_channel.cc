#include "engine/client/dense_channel.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/table/parameter_set.h"

namespace paddle::client {
namespace {

Error dense_misuse(std::string message) {
  return Error{Errc::kUsage, std::move(message)};
}

std::span<const float> floats(const Bytes& tail) {
  return {reinterpret_cast<const float*>(tail.data()), tail.size() / sizeof(float)};
}

}  // namespace

DenseChannel::DenseChannel(const wire::ParameterSet& set, ClientLanes lanes,
                           std::uint64_t transfer_bytes, Loans loans)
    : set_(set),
      lanes_(std::move(lanes)),
      layout_(dense_layout(set)),
      floats_max_(transfer_bytes / sizeof(float)),
      loans_(std::move(loans)),
      borrows_values_(!loans_.empty() && loans_.front()->lends_values && is_undivided(layout_)) {}

Result<std::vector<DenseParameter*>> DenseChannel::by_index(
    std::span<DenseParameter> parameters) const {
  std::vector<DenseParameter*> result(static_cast<std::size_t>(set_.parameters_size()), nullptr);
  for (DenseParameter& parameter : parameters) {
    if (parameter.parameter >= result.size() ||
        set_.parameters(static_cast<int>(parameter.parameter)).sparse()) {
      return dense_misuse(fmt::format("parameter {} is not dense", parameter.parameter));
    }
    const auto& spec = set_.parameters(static_cast<int>(parameter.parameter));
    const std::uint64_t elements = parameter::element_count(spec);
    if (!parameter.gradients().empty() && parameter.gradients().size() != elements) {
      return dense_misuse(fmt::format("the gradient of '{}' has {} elements, expected {}",
                                      spec.name(), parameter.gradients().size(), elements));
    }
    parameter.value.resize(elements);
    result[parameter.parameter] = &parameter;
  }
  return result;
}

Status DenseChannel::receive_values(std::size_t shard, FrameType type, std::uint64_t offset,
                                    std::uint64_t count, std::span<DenseParameter* const> to) {
  const std::size_t bytes = count * sizeof(float);
  bool is_placed = false;
  const auto place = [&](std::size_t tail_bytes) {
    std::vector<std::span<std::byte>> result;
    if (tail_bytes == bytes) result = destinations(layout_.pieces[shard], offset, count, to);
    is_placed = !result.empty();
    return result;
  };
  PADDLE_TRY(const Frame frame, lanes_.receive(shard, type, place));
  const bool has_values =
      type != FrameType::kPushed || lanes_.at(shard).answer<wire::Pushed>().has_values();
  if (is_placed || !has_values) return {};
  if (frame.tail.size() != bytes) return lanes_.malformed(shard, "tail");
  scatter(layout_.pieces[shard], floats(frame.tail), offset, to);
  return {};
}

Status DenseChannel::pull_shard(std::size_t shard, std::span<DenseParameter* const> to) {
  if (borrows_values_) {
    lend(layout_.pieces[shard], loans_[shard]->values, to);
    return {};
  }
  for (std::uint64_t done = 0; done < layout_.sizes[shard]; done += floats_max_) {
    wire::PullDense pull;
    pull.set_offset(done);
    pull.set_count(std::min(layout_.sizes[shard] - done, floats_max_));
    PADDLE_TRY_STATUS(lanes_.send(shard, FrameType::kPullDense, pull, {}));
    PADDLE_TRY_STATUS(receive_values(shard, FrameType::kDenseValues, done, pull.count(), to));
  }
  return {};
}

Status DenseChannel::pull(std::span<DenseParameter> parameters) {
  PADDLE_TRY(const auto to, by_index(parameters));
  for (std::size_t shard = 0; shard < lanes_.size(); ++shard) {
    PADDLE_TRY_STATUS(pull_shard(shard, to));
  }
  return {};
}

Status DenseChannel::pull_plane(std::uint32_t plane, std::span<DenseParameter> parameters) {
  PADDLE_TRY(const auto to, by_index(parameters));
  for (DenseParameter& one : parameters) one.lent = {};
  for (std::size_t shard = 0; shard < lanes_.size(); ++shard) {
    for (const DensePiece& piece : layout_.pieces[shard]) {
      if (to[piece.parameter] == nullptr) continue;
      std::uint64_t update_count = 0;
      PADDLE_TRY(const auto part, read(shard, plane, piece.offset, piece.size, update_count));
      scatter(std::span(&piece, 1), part, piece.offset, to);
    }
  }
  return {};
}

Result<std::vector<float>> DenseChannel::read(std::size_t shard, std::uint32_t plane,
                                              std::uint64_t offset, std::uint64_t count,
                                              std::uint64_t& update_count) {
  std::vector<float> values;
  for (std::uint64_t done = 0; done < count;) {
    wire::PullDense pull;
    pull.set_offset(offset + done);
    pull.set_count(std::min(count - done, floats_max_));
    pull.set_plane(plane);
    PADDLE_TRY(const Frame frame,
               lanes_.exchange(shard, FrameType::kPullDense, pull, {}, FrameType::kDenseValues));
    if (frame.tail.size() != pull.count() * sizeof(float)) return lanes_.malformed(shard, "tail");
    if (done == 0) update_count = lanes_.at(shard).answer<wire::DenseValues>().update_count();
    const auto part = floats(frame.tail);
    values.insert(values.end(), part.begin(), part.end());
    done += pull.count();
  }
  return values;
}

Result<DenseChannel::Push> DenseChannel::prepare(const wire::PushPart& totals,
                                                 std::span<DenseParameter> parameters,
                                                 std::optional<std::uint64_t> node_samples) {
  Push push(*this, totals);
  PADDLE_TRY(push.parameters_, by_index(parameters));
  push.is_empty_ = node_samples == 0 && parameters.empty();
  for (std::size_t shard = 0; shard < lanes_.size(); ++shard) {
    const std::uint64_t size = layout_.sizes[shard];
    if (push.is_empty_) {
      push.add_shard(1, [](std::size_t, auto& part) { part.head.set_node_samples(0); });
      continue;
    }
    if (!loans_.empty()) push.lent_.push_back(gradients(layout_.pieces[shard], push.parameters_));
    if (!loans_.empty() && !push.lent_.back().empty()) {
      push.add_shard(1, [&](std::size_t, auto& part) { part.head.set_count(size); });
      continue;
    }
    const std::uint64_t count = std::max<std::uint64_t>(1, (size + floats_max_ - 1) / floats_max_);
    push.add_shard(count, [&](std::size_t i, auto& part) {
      const std::uint64_t offset = i * floats_max_;
      part.head.set_offset(offset);
      if (node_samples) part.head.set_node_samples(*node_samples);
      part.head.set_count(std::min(size - offset, floats_max_));
      part.pieces = gather(layout_.pieces[shard], push.parameters_, offset, part.head.count());
    });
  }
  return push;
}

Status DenseChannel::Push::send() {
  for (std::size_t i = 0; i < lent_.size(); ++i) channel_.loans_[i]->gradient = std::move(lent_[i]);
  Status sent = PartedPush::send();
  for (std::size_t i = 0; i < lent_.size(); ++i) channel_.loans_[i]->gradient.clear();
  return sent;
}

Status DenseChannel::Push::receive() {
  std::vector<std::size_t> to_pull;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    if (!is_sent_to(shard)) {
      to_pull.push_back(shard);
      continue;
    }
    PADDLE_TRY_STATUS(channel_.receive_values(shard, FrameType::kPushed, 0,
                                              channel_.layout_.sizes[shard], parameters_));
    const bool has_values = lanes_.at(shard).answer<wire::Pushed>().has_values();
    if (!has_values && !is_empty_) to_pull.push_back(shard);
  }
  for (const std::size_t shard : to_pull) {
    PADDLE_TRY_STATUS(channel_.pull_shard(shard, parameters_));
  }
  lanes_.on_push(batches_);
  return {};
}

}  // namespace paddle::client
