#include "engine/group/group_client.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/math/optimizer.h"
#include "engine/snapshot/reader.h"

namespace paddle::strategy {
namespace {

// Limit for the other ranks, which have ended the job too, to close their connections.
constexpr Duration kLeaveMax = std::chrono::seconds(30);

}  // namespace

Result<std::unique_ptr<GroupClient>> GroupClient::create(
    wire::ParameterSet set, std::unique_ptr<collective::Group> group, HostRanks::Options options,
    const Flags& flags, std::optional<CardRanks::Options> card,
    std::optional<GroupSavepoints::Options> savepoints) {
  const std::uint64_t bytes_max = options.bytes_max;
  PADDLE_TRY(auto rank, GroupRank::create(std::move(set), std::move(group), std::move(options),
                                          flags, std::move(card)));
  std::unique_ptr<GroupClient> client(new GroupClient(std::move(rank)));
  PADDLE_TRY_STATUS(client->recovery_.go_back(std::move(savepoints), bytes_max));
  return client;
}

Status GroupClient::ready() {
  PADDLE_TRY_STATUS(state_.begin_training());
  if (!rank_->progress.is_restored) recovery_.keep();
  return {};
}

Status GroupClient::pull_dense(std::span<client::DenseParameter> parameters) {
  if (!rank_->local) return rank_->dense->lend(parameters);
  rank_->local->pull(parameters);
  return {};
}

Status GroupClient::pull_rows(std::span<client::SparseRows> rows) {
  if (rows.empty()) return {};
  return Error{Errc::kUsage, "this client has no sparse tables to pull",
               "a group keeps no sparse tables"};
}

Status GroupClient::pull_averages(std::span<client::DenseParameter> dense,
                                  std::span<client::SparseRows> rows) {
  PADDLE_TRY_STATUS(pull_rows(rows));
  if (dense.empty()) return {};
  if (!optim::has_average(rank_->set.optimizer())) return rank_->dense->lend(dense);
  for (client::DenseParameter& one : dense) {
    one.lent = {};
    one.card.value = nullptr;
  }
  return steps_.gather_state(GroupState::Planes::kAverages, GroupState::copy_averages(dense));
}

Status GroupClient::push(std::uint64_t num_samples, double cost_sum,
                         std::span<client::DenseParameter> dense,
                         std::span<client::SparseRows> sparse) {
  if (!sparse.empty()) {
    return Error{Errc::kUsage, "this client has no sparse tables to push",
                 "a group keeps no sparse tables"};
  }
  return steps_.push({.samples = num_samples, .cost = cost_sum}, dense);
}

Status GroupClient::repeat_push(std::uint64_t, std::uint64_t, double,
                                std::span<client::DenseParameter>, std::span<client::SparseRows>) {
  return Error{Errc::kUsage, "a rank's push cannot be repeated"};
}

void GroupClient::repeat_end(client::PassEnd end) {
  const GroupProgress& progress = rank_->progress;
  PADDLE_CHECK(progress.is_restored && progress.ended.paused == (end == client::PassEnd::kPause));
  repeats_end_ = true;
}

Result<client::PassTotals> GroupClient::end_pass(const Tally& tally, client::PassEnd end) {
  GroupProgress& progress = rank_->progress;
  if (std::exchange(repeats_end_, false)) return progress.ended;
  const bool is_finite =
      std::ranges::all_of(tally.sums, [](double sum) { return std::isfinite(sum); });
  if (!is_finite) {
    return rank_->fail(
        Error{Errc::kFailed,
              fmt::format("a sum of trainer {}'s evaluators is not finite", rank_->number())});
  }
  PADDLE_TRY(const bool pauses, steps_.end_pass(end));
  // A job that continues from a snapshot of this place begins with these values.
  PADDLE_TRY_STATUS(rank_->dense->settle());
  PADDLE_TRY(Tally all, rank_->group->sum(tally));
  if (rank_->local) rank_->local->end_pass(pauses ? client::PassEnd::kPause : end);
  client::PassTotals totals = progress.end_pass(std::move(all), pauses);
  // Within a pass, a job that is to stop continues from its snapshot, or from the savepoint before.
  if (!progress.is_within_pass()) recovery_.keep();
  return totals;
}

Status GroupClient::announce_busy(std::string_view activity) {
  steps_.announce_busy(activity);
  return {};
}

// Until all ranks have reached this barrier, another rank may still need this one to save. A rank
// that is lost after it does no harm.
Status GroupClient::leave() {
  PADDLE_TRY_STATUS(steps_.barrier());
  Status left = rank_->group->leave(std::chrono::steady_clock::now() + kLeaveMax);
  if (left || left.error().code != Errc::kUnreachable) return left;
  log_info("the job is over: {}", left.error().message);
  return {};
}

Status GroupClient::watch(Duration patience) {
  return rank_->group->watch(std::chrono::steady_clock::now() + patience);
}

Status GroupClient::load(const std::string& directory) {
  auto reader = snapshot::SnapshotReader::open(directory);
  if (!reader) return rank_->fail(std::move(reader).error());
  return state_.load(*reader, false);
}

Status GroupClient::resume(const snapshot::SnapshotReader& snapshot) {
  return state_.load(snapshot, true);
}

// All of a group's parameters are dense, so each snapshot has all of them.
Status GroupClient::add_to(snapshot::SnapshotWriter& writer, client::SavedRows /*rows*/) {
  Status written;
  PADDLE_TRY_STATUS(steps_.gather_state(GroupState::Planes::kAll, state_.add_to(writer, written)));
  return written;
}

}  // namespace paddle::strategy
