#include "engine/group/group_recovery.h"

#include <utility>

#include "base/log.h"
#include "base/rng.h"
#include "proto/collective.pb.h"

namespace paddle::strategy {
namespace {

// Size of a head without its numbers for each rank and parameter, and without the tally.
constexpr std::uint64_t kHeadBytes = 4096;
constexpr std::uint64_t kNumberBytesMax = 10;

// Room for values, gradients and the residuals of their roundings; and for the part, and its
// savepoints.
bool has_room(const DenseRanks& dense, std::uint64_t bytes_max) {
  const std::uint64_t floats =
      4 * dense.layout().elements() + (1 + GroupSavepoints::kSlots) * dense.part_floats();
  return floats <= bytes_max / sizeof(float);
}

// Identifies a rank's place in the group. A restarted rank has the slices of its earlier process
// only if its place is the same.
std::uint64_t place_hash(const collective::Group& group) {
  const collective::Range slice = group.own_slice(std::size_t{1} << 30U);
  return hash_combine(hash_combine(group.rank(), group.size()),
                      hash_combine(slice.begin, slice.end));
}

GroupSavepoints::Shape shape_of(const GroupRank& rank) {
  const std::uint64_t numbers =
      2ULL * rank.group->size() + static_cast<std::uint64_t>(rank.set.parameters_size());
  return {.job = hash_combine(rank.plan_hash, place_hash(*rank.group)),
          .part_floats = rank.dense->part_floats(),
          .head_bytes_max = kHeadBytes + numbers * kNumberBytesMax + kTallyBytesMax};
}

// The newest savepoint that every rank has.
Result<GroupSavepoints::Mark> agree_on_savepoint(collective::Group& group,
                                                 const GroupSavepoints* savepoints) {
  std::vector<GroupSavepoints::Marks> all(group.size());
  if (savepoints != nullptr) all[group.rank()] = savepoints->marks();
  std::vector<collective::Pending> pending;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    pending.push_back(
        group.broadcast(rank, std::as_writable_bytes(std::span(all).subspan(rank, 1))));
  }
  Status first;
  for (collective::Pending& one : pending) {
    Status done = one.wait();
    if (first && !done) first = std::move(done);
  }
  PADDLE_TRY_STATUS(first);
  return GroupSavepoints::newest_of_all(all);
}

}  // namespace

Status GroupRecovery::go_back(std::optional<GroupSavepoints::Options> options,
                              std::uint64_t bytes_max) {
  if (!rank_.set.trainers_return()) return {};
  if (options && !has_room(*rank_.dense, bytes_max)) {
    log_warning(
        "no memory for savepoints: if a trainer fails, the whole job resumes from its last "
        "snapshot");
    options.reset();
  }
  if (options) {
    savepoints_ = std::make_unique<GroupSavepoints>(*std::move(options), shape_of(rank_));
  }
  PADDLE_TRY(const GroupSavepoints::Mark mark, agree_on_savepoint(*rank_.group, savepoints_.get()));
  if (savepoints_) savepoints_->keep_only(mark);
  return mark.number == 0 ? Status() : restore(mark);
}

bool GroupRecovery::is_due() const {
  return rank_.number() == 0 && savepoints_ &&
         savepoints_->is_due(SteadyClock().now(), rank_.progress.pass_batches[0] + 1);
}

void GroupRecovery::keep() {
  ++number_;
  if (!savepoints_ || !rank_.dense->is_settled()) return;
  wire::GroupSavepoint head;
  head.set_number(number_);
  rank_.progress.write_to(head);
  for (int i = 0; i < rank_.set.parameters_size(); ++i)
    head.add_update_counts(rank_.dense->update_count(static_cast<std::uint32_t>(i)));
  savepoints_->keep(
      number_, head.SerializeAsString(), rank_.unreported_cost,
      [this](const GroupSavepoints::Put& put) { return rank_.dense->read_part(put); });
}

Status GroupRecovery::restore(const GroupSavepoints::Mark& mark) {
  wire::GroupSavepoint message;
  bool is_read = true;
  const auto lose = [&](Error why) {
    savepoints_->keep_only({});  // then it is not a common savepoint of all ranks
    return rank_.fail(
        {Errc::kUnreachable, std::move(why.message), "all trainers go back to an earlier state"});
  };
  const auto head = savepoints_->head(mark);
  if (!head) return lose(head.error());
  if (!message.ParseFromString(*head) || !GroupProgress::is_whole(message) ||
      message.update_counts_size() != rank_.set.parameters_size()) {
    return lose({Errc::kData, "the header of a savepoint is malformed"});
  }
  const std::vector<std::uint64_t> counts(message.update_counts().begin(),
                                          message.update_counts().end());
  const Status restored = savepoints_->restore(mark, [&](const GroupSavepoints::Take& take) {
    return rank_.dense->restore_parts(
        [&](std::span<float> next) {
          Status read = take(next);
          is_read = is_read && read;
          return read;
        },
        counts);
  });
  if (!is_read) return lose(restored.error());
  PADDLE_TRY_STATUS(restored);
  rank_.progress.go_to(message);
  rank_.unreported_cost = savepoints_->own(mark);
  number_ = message.number();
  log_info("all trainers go back to their savepoints of step {}", rank_.progress.step);
  return {};
}

}  // namespace paddle::strategy
