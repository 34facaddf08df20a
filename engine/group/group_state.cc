#include "engine/group/group_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "engine/math/optimizer.h"
#include "engine/snapshot/snapshot_source.h"
#include "engine/table/parameter_set.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kStartBytesMax = 8ULL << 20U;

bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

Status GroupState::load(const snapshot::SnapshotReader& snapshot, bool resumes) {
  PADDLE_CHECK(rank_.number() == 0);
  const snapshot::SnapshotSource source(rank_.set, snapshot);
  if (const Status checked = source.check(); !checked) return rank_.fail(checked.error());
  auto place = source.place(resumes);
  if (!place) return rank_.fail(std::move(place).error());
  const wire::PassOrigins origins = source.origins(resumes);
  PADDLE_TRY_STATUS(send_start(&*place, origins));
  rank_.progress.go_to(*place, origins);
  for (const std::uint32_t parameter : rank_.dense->layout().dense()) {
    auto dense = source.dense(parameter);
    if (!dense) return rank_.fail(std::move(dense).error());
    if (!are_finite(dense->value) || !are_finite(dense->state)) {
      return rank_.fail(Error{
          Errc::kData, fmt::format("snapshot {}: '{}' is not finite", snapshot.directory(),
                                   rank_.set.parameters(static_cast<int>(parameter)).name())});
    }
    PADDLE_TRY_STATUS(spread(parameter, dense->value, dense->state, dense->update_count));
  }
  return {};
}

Status GroupState::begin_training() {
  if (rank_.number() == 0) return send_start(nullptr, {});
  for (;;) {
    PADDLE_TRY(const wire::GroupStart start, receive_start());
    if (!start.has_load()) return {};
    PADDLE_TRY_STATUS(receive(start));
  }
}

Status GroupState::gather(std::uint32_t root, Planes planes, const Use& use) const {
  const std::uint32_t last = rank_.dense->state_width();
  const std::uint32_t first = planes == Planes::kAverages ? last : 0;
  std::vector<float> gathered;
  for (const std::uint32_t parameter : rank_.dense->layout().dense()) {
    const std::size_t size = use ? rank_.dense->layout().parameter(parameter).size() : 0;
    gathered.resize((last - first + 1) * size);
    for (std::uint32_t plane = first; plane <= last; ++plane) {
      const auto into = std::span(gathered).subspan((plane - first) * size, size);
      PADDLE_TRY_STATUS(rank_.dense->gather(root, parameter, plane, into));
    }
    if (use) use(parameter, gathered);
  }
  return {};
}

GroupState::Use GroupState::copy_averages(std::span<client::DenseParameter> parameters) {
  return [parameters](std::uint32_t parameter, std::span<float> averages) {
    const auto found = std::ranges::find(parameters, parameter, &client::DenseParameter::parameter);
    if (found == parameters.end()) return;
    found->value.resize(averages.size());
    std::ranges::copy(averages, found->value.begin());
  };
}

GroupState::Use GroupState::add_to(snapshot::SnapshotWriter& writer, Status& written) const {
  return [&](std::uint32_t parameter, std::span<float> planes) {
    if (!written) return;
    const std::size_t size = rank_.dense->layout().parameter(parameter).size();
    const auto value = planes.first(size);
    const auto state = planes.subspan(size);
    if (optim::has_average(rank_.set.optimizer())) optim::swap_average(value, state);
    written = writer.add_dense(rank_.set.parameters(static_cast<int>(parameter)), value, state,
                               rank_.dense->update_count(parameter));
  };
}

snapshot::SnapshotInfo GroupState::info() const {
  const GroupProgress& progress = rank_.progress;
  snapshot::SnapshotInfo info;
  info.optimizer = rank_.set.optimizer();
  info.pass = progress.passes;
  info.step = progress.step;
  info.samples = progress.samples;
  info.seed = rank_.set.seed();
  info.trainer_cursors = progress.cursors;
  if (progress.ended.paused && progress.is_within_pass()) info.pass_batches = progress.pass_batches;
  return info;
}

Status GroupState::receive(const wire::GroupStart& start) {
  rank_.progress.go_to(start.load(), start.origins());
  for (const std::uint32_t parameter : rank_.dense->layout().dense()) {
    PADDLE_TRY_STATUS(spread(parameter, {}, {}, 0));
  }
  return {};
}

// Rank 0 sends its arguments; the other ranks ignore theirs.
Status GroupState::spread(std::uint32_t parameter, std::span<const float> value,
                          std::span<const float> state, std::uint64_t update_count) const {
  PADDLE_TRY_STATUS(
      rank_.group->broadcast(0, std::as_writable_bytes(std::span(&update_count, 1))).wait());
  const std::size_t size = value.size();
  for (std::uint32_t plane = 0; plane <= rank_.dense->state_width(); ++plane) {
    const auto from = plane == 0 || size == 0 ? value : state.subspan((plane - 1) * size, size);
    PADDLE_TRY_STATUS(rank_.dense->spread(0, parameter, plane, from, update_count));
  }
  return {};
}

// Without a `place`, no snapshot follows.
Status GroupState::send_start(const wire::LoadBegin* place, const wire::PassOrigins& origins) {
  wire::GroupStart message;
  message.set_parameters(rank_.set.SerializeAsString());
  if (place != nullptr) *message.mutable_load() = *place;
  if (origins.batches_size() > 0) *message.mutable_origins() = origins;
  std::string bytes = message.SerializeAsString();
  std::uint64_t size = bytes.size();
  PADDLE_TRY_STATUS(rank_.group->broadcast(0, std::as_writable_bytes(std::span(&size, 1))).wait());
  return rank_.group->broadcast(0, std::as_writable_bytes(std::span(bytes))).wait();
}

Result<wire::GroupStart> GroupState::receive_start() {
  std::uint64_t size = 0;
  PADDLE_TRY_STATUS(rank_.group->broadcast(0, std::as_writable_bytes(std::span(&size, 1))).wait());
  if (size > kStartBytesMax)
    return rank_.fail(Error{Errc::kData, "the start message of rank 0 is too long"});
  std::string bytes(size, '\0');
  PADDLE_TRY_STATUS(rank_.group->broadcast(0, std::as_writable_bytes(std::span(bytes))).wait());
  wire::GroupStart message;
  wire::ParameterSet theirs;
  if (!message.ParseFromString(bytes) || !theirs.ParseFromString(message.parameters())) {
    return rank_.fail(Error{Errc::kData, "the start message of rank 0 is malformed"});
  }
  const std::string difference = parameter::parameter_difference(theirs, rank_.set);
  if (!difference.empty()) {
    return rank_.fail(Error{Errc::kUsage,
                            fmt::format("{} and {} train different jobs: {}", rank_.group->name(0),
                                        rank_.group->name(rank_.number()), difference),
                            "give all trainers the same job.toml and the same flags"});
  }
  return message;
}

}  // namespace paddle::strategy
