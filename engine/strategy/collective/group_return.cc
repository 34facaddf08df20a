// Cuts of a group: how all ranks keep them at the same steps, and go back to one after a loss.
#include <algorithm>

#include "base/log.h"
#include "base/rng.h"
#include "engine/strategy/collective/group_client.h"
#include "proto/collective.pb.h"

namespace paddle::strategy {
namespace {

// Of a head beside its numbers for each rank and parameter, and the tally.
constexpr std::uint64_t kHeadBytes = 4096;
constexpr std::uint64_t kNumberBytesMax = 10;

// The slices of a rank are those of its earlier lives, if its place is.
std::uint64_t place_hash(const collective::Group& group) {
  const collective::Range slice = group.own_slice(std::size_t{1} << 30U);
  return hash_combine(hash_combine(group.rank(), group.size()),
                      hash_combine(slice.begin, slice.end));
}

// Values, gradients and what their roundings leave out; then the part, and its cuts.
bool has_room(const DenseRanks& ranks, std::uint64_t bytes_max) {
  const std::uint64_t floats =
      4 * ranks.layout().elements() + (1 + GroupCuts::kSlots) * ranks.part_floats();
  return floats <= bytes_max / sizeof(float);
}

GroupCuts::Shape shape_of(const collective::Group& group, const DenseRanks& ranks,
                          const wire::ParameterSet& set, std::uint64_t plan_hash) {
  const std::uint64_t numbers =
      2ULL * group.size() + static_cast<std::uint64_t>(set.parameters_size());
  return {.job = hash_combine(plan_hash, place_hash(group)),
          .part_floats = ranks.part_floats(),
          .head_bytes_max = kHeadBytes + numbers * kNumberBytesMax + kTallyBytesMax};
}

// The newest cut that every rank has.
Result<GroupCuts::Mark> agree_on_cut(collective::Group& group, const GroupCuts* cuts) {
  std::vector<GroupCuts::Marks> all(group.size());
  if (cuts != nullptr) all[group.rank()] = cuts->marks();
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
  return GroupCuts::newest_of_all(all);
}

}  // namespace

Status GroupClient::repeat_push(std::uint64_t, std::uint64_t, double,
                                std::span<client::DenseParameter>, std::span<client::SparseRows>) {
  return Error{Errc::kUsage, "a rank's push cannot be repeated"};
}

void GroupClient::repeat_end(client::PassEnd end) {
  PADDLE_CHECK(place_.went_back && place_.ended.paused == (end == client::PassEnd::kPause));
  repeats_end_ = true;
}

// A rank without cuts takes part: then nobody goes back to one, and all begin anew, or with the
// snapshot that rank 0 loads.
Status GroupClient::go_back(std::optional<GroupCuts::Options> options, std::uint64_t bytes_max) {
  if (!set_.trainers_return()) return {};
  if (options && !has_room(*ranks_, bytes_max)) {
    log_warning("no memory for cuts: if a trainer is lost, all go back to the last snapshot");
    options.reset();
  }
  if (options) {
    cuts_ = std::make_unique<GroupCuts>(*std::move(options),
                                        shape_of(*group_, *ranks_, set_, plan_hash_));
  }
  PADDLE_TRY(const GroupCuts::Mark mark, agree_on_cut(*group_, cuts_.get()));
  // Before anybody makes a step: no rank has cuts of a job that went another way.
  if (cuts_) cuts_->keep_only(mark);
  return mark.number == 0 ? Status() : restore(mark);
}

Status GroupClient::restore(const GroupCuts::Mark& mark) {
  wire::GroupCut message;
  bool is_read = true;
  const auto lose = [&](Error why) {
    cuts_->keep_only({});  // and so it is no longer one of all
    return fail({Errc::kUnreachable, std::move(why.message), "all go back further"});
  };
  const auto head = cuts_->head(mark);
  if (!head) return lose(head.error());
  if (!message.ParseFromString(*head) || !GroupPlace::is_whole(message) ||
      message.update_counts_size() != set_.parameters_size()) {
    return lose({Errc::kData, "the head of a cut is malformed"});
  }
  const std::vector<std::uint64_t> counts(message.update_counts().begin(),
                                          message.update_counts().end());
  const Status restored = cuts_->restore(mark, [&](const GroupCuts::Take& take) {
    return ranks_->restore_parts(
        [&](std::span<float> next) {
          Status read = take(next);
          is_read = is_read && read;
          return read;
        },
        counts);
  });
  if (!is_read) return lose(restored.error());
  PADDLE_TRY_STATUS(restored);
  place_.go_to(message);
  cut_number_ = message.number();
  cost_untold_ = cuts_->own(mark);
  log_info("all trainers go back to step {}, which each has kept", place_.step);
  return {};
}

bool GroupClient::wants_cut() const {
  return group_->rank() == 0 && cuts_ &&
         cuts_->is_due(SteadyClock().now(), place_.pass_batches[0] + 1);
}

// All ranks come here at the same step.
void GroupClient::keep_cut() {
  ++cut_number_;
  if (!cuts_ || !ranks_->is_settled()) return;
  wire::GroupCut head;
  head.set_number(cut_number_);
  place_.write_to(head);
  for (int i = 0; i < set_.parameters_size(); ++i)
    head.add_update_counts(ranks_->update_count(static_cast<std::uint32_t>(i)));
  cuts_->keep(cut_number_, head.SerializeAsString(), cost_untold_,
              [this](const GroupCuts::Put& put) { return ranks_->read_part(put); });
}

}  // namespace paddle::strategy
