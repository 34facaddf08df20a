// Snapshots of a group: a rank gathers the state and writes it; rank 0 reads one and spreads it.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/source/snapshot_source.h"
#include "engine/strategy/collective/sinks.h"
#include "proto/collective.pb.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kStartBytesMax = 8ULL << 20U;

bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

Result<snapshot::SnapshotInfo> GroupClient::info() {
  snapshot::SnapshotInfo info;
  info.optimizer = set_.optimizer();
  info.pass = place_.passes;
  info.step = place_.step;
  info.samples = place_.samples;
  info.seed = set_.seed();
  info.trainer_cursors = place_.cursors;
  if (is_paused_ && place_.is_within_pass()) info.pass_batches = place_.pass_batches;
  return info;
}

Status GroupClient::add_to(snapshot::SnapshotWriter& writer, client::SavedRows /*rows*/) {
  SnapshotSink sink(set_, *ranks_, writer);
  PADDLE_TRY_STATUS(fetch(Wish::kState, sink));
  return sink.written();
}

Status GroupClient::load(const std::string& directory) {
  auto reader = snapshot::SnapshotReader::open(directory);
  if (!reader) return fail(std::move(reader).error());
  return load_as_root(*reader, false);
}

Status GroupClient::resume(const snapshot::SnapshotReader& snapshot) {
  return load_as_root(snapshot, true);
}

Status GroupClient::load_as_root(const snapshot::SnapshotReader& snapshot, bool resumes) {
  PADDLE_CHECK(group_->rank() == 0);
  const snapshot::SnapshotSource source(set_, snapshot);
  if (const Status checked = source.check(); !checked) return fail(checked.error());
  auto place = source.place(resumes);
  if (!place) return fail(std::move(place).error());
  const wire::PassOrigins origins = source.origins(resumes);
  PADDLE_TRY_STATUS(send_start(&*place, origins));
  place_.go_to(*place, origins);
  for (const std::uint32_t parameter : ranks_->layout().dense()) {
    auto dense = source.dense(parameter);
    if (!dense) return fail(std::move(dense).error());
    if (!are_finite(dense->value) || !are_finite(dense->state)) {
      return fail(
          Error{Errc::kData, fmt::format("snapshot {}: '{}' is not finite", snapshot.directory(),
                                         set_.parameters(static_cast<int>(parameter)).name())});
    }
    PADDLE_TRY_STATUS(spread(parameter, dense->value, dense->state, dense->update_count));
  }
  return {};
}

Status GroupClient::load_from_root(const wire::GroupStart& start) {
  place_.go_to(start.load(), start.origins());
  for (const std::uint32_t parameter : ranks_->layout().dense()) {
    PADDLE_TRY_STATUS(spread(parameter, {}, {}, 0));
  }
  return {};
}

// `value` and `state` are rank 0's.
Status GroupClient::spread(std::uint32_t parameter, std::span<const float> value,
                           std::span<const float> state, std::uint64_t update_count) {
  PADDLE_TRY_STATUS(
      group_->broadcast(0, std::as_writable_bytes(std::span(&update_count, 1))).wait());
  const std::size_t size = value.size();
  for (std::uint32_t plane = 0; plane <= ranks_->state_width(); ++plane) {
    const auto from = plane == 0 || size == 0 ? value : state.subspan((plane - 1) * size, size);
    PADDLE_TRY_STATUS(ranks_->spread(0, parameter, plane, from, update_count));
  }
  return {};
}

Status GroupClient::send_start(const wire::LoadBegin* place, const wire::PassOrigins& origins) {
  wire::GroupStart message;
  message.set_parameters(set_.SerializeAsString());
  if (place != nullptr) *message.mutable_load() = *place;
  if (origins.batches_size() > 0) *message.mutable_origins() = origins;
  std::string bytes = message.SerializeAsString();
  std::uint64_t size = bytes.size();
  PADDLE_TRY_STATUS(group_->broadcast(0, std::as_writable_bytes(std::span(&size, 1))).wait());
  return group_->broadcast(0, std::as_writable_bytes(std::span(bytes))).wait();
}

Result<std::optional<wire::GroupStart>> GroupClient::receive_start() {
  std::uint64_t size = 0;
  PADDLE_TRY_STATUS(group_->broadcast(0, std::as_writable_bytes(std::span(&size, 1))).wait());
  if (size > kStartBytesMax) return fail(Error{Errc::kData, "rank 0's start is too long"});
  std::string bytes(size, '\0');
  PADDLE_TRY_STATUS(group_->broadcast(0, std::as_writable_bytes(std::span(bytes))).wait());
  wire::GroupStart message;
  wire::ParameterSet theirs;
  if (!message.ParseFromString(bytes) || !theirs.ParseFromString(message.parameters())) {
    return fail(Error{Errc::kData, "rank 0's start is malformed"});
  }
  const std::string difference = parameter::parameter_difference(theirs, set_);
  if (!difference.empty()) {
    return fail(Error{Errc::kUsage,
                      fmt::format("{} and {} train different jobs: {}", group_->name(0),
                                  group_->name(group_->rank()), difference),
                      "give all trainers the same job.toml and the same flags"});
  }
  if (!message.has_load()) return std::optional<wire::GroupStart>();
  return std::optional<wire::GroupStart>(std::move(message));
}

Status GroupClient::ready() {
  if (group_->rank() == 0) {
    PADDLE_TRY_STATUS(send_start(nullptr, {}));
  } else {
    for (;;) {
      PADDLE_TRY(const std::optional<wire::GroupStart> start, receive_start());
      if (!start) break;
      PADDLE_TRY_STATUS(load_from_root(*start));
    }
  }
  if (!place_.went_back) keep_cut();
  return {};
}

}  // namespace paddle::strategy
