#include "engine/group/group_client.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"
#include "engine/math/optimizer.h"
#include "engine/math/schedule.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/snapshot_source.h"
#include "engine/table/parameter_set.h"
#include "proto/collective.pb.h"

namespace paddle::strategy {
namespace {

// Limit for the other ranks, which have ended the job too, to close their connections.
constexpr Duration kLeaveMax = std::chrono::seconds(30);

// Size of a head without its numbers for each rank and parameter, and without the tally.
constexpr std::uint64_t kHeadBytes = 4096;
constexpr std::uint64_t kNumberBytesMax = 10;

constexpr std::uint64_t kStartBytesMax = 8ULL << 20U;

wire::GroupPass message_of(const client::PassTotals& totals) {
  wire::GroupPass message;
  message.set_samples(totals.samples);
  message.set_cost(totals.cost);
  message.set_pushes(totals.dense.pushes);
  message.set_batches(totals.dense.batches);
  return message;
}

client::PassTotals totals_of(const wire::GroupPass& message) {
  client::PassTotals totals;
  totals.samples = message.samples();
  totals.cost = message.cost();
  totals.dense.pushes = message.pushes();
  totals.dense.batches = message.batches();
  if (message.pushes() > 0) totals.dense.lags = {message.pushes()};
  return totals;
}

Result<Tally> tally_of(const wire::GroupSavepoint& savepoint) {
  return decode_tally(as_bytes(savepoint.tally()), savepoint.tally_counts(), savepoint.tally_sums(),
                      savepoint.tally_histograms());
}

Status check_samples(std::uint64_t samples) {
  if (samples <= parameter::kCounterMax) return {};
  return Error{Errc::kUsage,
               fmt::format("a batch has {} samples, which exceeds the limit", samples)};
}

Status check_push(std::uint32_t rank, std::uint64_t batch, const client::PushTotals& totals,
                  const std::string& above) {
  if (!above.empty()) {
    return Error{Errc::kFailed,
                 fmt::format("trainer {} pushed a gradient of '{}' that is not finite, or would "
                             "make its values so (batch {})",
                             rank, above, batch),
                 "lower the learning rate, or check the data of this batch"};
  }
  if (!std::isfinite(totals.cost)) {
    return Error{Errc::kFailed,
                 fmt::format("trainer {} pushed a cost of {} (batch {})", rank, totals.cost, batch),
                 "lower the learning rate, or check the data of this batch"};
  }
  return check_samples(totals.samples);
}

// Identifies a rank's place in the group. A restarted rank has the slices of its earlier process
// only if its place is the same.
std::uint64_t place_hash(const collective::Group& group) {
  const collective::Range slice = group.own_slice(std::size_t{1} << 30U);
  return hash_combine(hash_combine(group.rank(), group.size()),
                      hash_combine(slice.begin, slice.end));
}

// Room for values, gradients and the residuals of their roundings; and for the part, and its
// savepoints.
bool has_room(const DenseRanks& ranks, std::uint64_t bytes_max) {
  const std::uint64_t floats =
      4 * ranks.layout().elements() + (1 + GroupSavepoints::kSlots) * ranks.part_floats();
  return floats <= bytes_max / sizeof(float);
}

GroupSavepoints::Shape shape_of(const collective::Group& group, const DenseRanks& ranks,
                                const wire::ParameterSet& set, std::uint64_t plan_hash) {
  const std::uint64_t numbers =
      2ULL * group.size() + static_cast<std::uint64_t>(set.parameters_size());
  return {.job = hash_combine(plan_hash, place_hash(group)),
          .part_floats = ranks.part_floats(),
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

bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

// The ranks' position in their job.

void GroupPlace::count(std::span<const collective::StepInfo> infos) {
  for (std::uint32_t rank = 0; rank < infos.size(); ++rank) {
    const collective::StepInfo& info = infos[rank];
    if (info.out_of_data) continue;
    ++cursors[rank];
    pass_batches[rank] += info.batches;
    pass.dense.batches += info.batches;
    ++pass.dense.pushes;
    pass.samples += info.samples;
    samples += info.samples;
  }
  pass.dense.lags = {pass.dense.pushes};
}

const client::PassTotals& GroupPlace::end_pass(Tally all, bool is_pause) {
  ended = pass;
  ended.tally = std::move(all);
  ended.paused = is_pause;
  if (is_pause) {
    ++pauses;
    return ended;
  }
  ++passes;
  begun = {samples, passes};
  pauses = 0;
  pass = {};
  std::ranges::fill(pass_batches, 0);
  return ended;
}

void GroupPlace::go_to(const wire::LoadBegin& place, const wire::PassOrigins& from) {
  step = place.step();
  samples = place.samples();
  passes = passes_loaded = place.passes_finished();
  begun = {samples, passes};
  origins = from;
  for (std::uint32_t rank = 0; rank < cursors.size(); ++rank) {
    const auto i = static_cast<int>(rank);
    cursors[rank] = i < place.cursors_size() ? place.cursors(i) : 0;
    pass_batches[rank] = i < place.pass_batches_size() ? place.pass_batches(i) : 0;
  }
}

bool GroupPlace::is_whole(const wire::GroupSavepoint& savepoint) {
  return static_cast<bool>(tally_of(savepoint));
}

void GroupPlace::go_to(const wire::GroupSavepoint& savepoint) {
  go_to(savepoint.place(), savepoint.origins());
  passes_loaded = savepoint.passes_loaded();
  pauses = savepoint.pauses();
  pass = totals_of(savepoint.pass());
  ended = totals_of(savepoint.ended());
  ended.paused = savepoint.paused();
  ended.tally = *tally_of(savepoint);
  is_restored = true;
}

void GroupPlace::write_to(wire::GroupSavepoint& savepoint) const {
  wire::LoadBegin& place = *savepoint.mutable_place();
  place.set_step(step);
  place.set_passes_finished(passes);
  place.set_samples(samples);
  for (const std::uint64_t cursor : cursors) place.add_cursors(cursor);
  for (const std::uint64_t batches : pass_batches) place.add_pass_batches(batches);
  if (origins.batches_size() > 0) *savepoint.mutable_origins() = origins;
  savepoint.set_passes_loaded(passes_loaded);
  savepoint.set_pauses(pauses);
  *savepoint.mutable_pass() = message_of(pass);
  if (is_within_pass()) return;
  *savepoint.mutable_ended() = message_of(ended);
  savepoint.set_paused(ended.paused);
  savepoint.set_tally_counts(ended.tally.counts.size());
  savepoint.set_tally_sums(ended.tally.sums.size());
  savepoint.set_tally_histograms(ended.tally.histograms.size());
  const Bytes tally = encode(ended.tally);
  savepoint.set_tally(tally.data(), tally.size());
}

client::JobProgress GroupPlace::progress(std::uint32_t rank) const {
  client::JobProgress progress;
  progress.samples = samples;
  progress.passes = passes;
  progress.batches = pass_batches[rank];
  progress.is_running = is_restored;
  progress.passes_loaded = passes_loaded;
  progress.pauses = pauses;
  progress.is_within_pass = is_within_pass();
  progress.furthest = {passes, pauses, progress.batches};
  const auto id = static_cast<int>(rank);
  if (id < std::min({origins.batches_size(), origins.records_size(), origins.data_size()})) {
    wire::PassOrigin& own = progress.origin.emplace();
    own.set_pass(origins.pass());
    own.set_batches(origins.batches(id));
    own.set_records(origins.records(id));
    own.set_data(origins.data(id));
  }
  return progress;
}

bool GroupPlace::is_within_pass() const {
  return std::ranges::any_of(pass_batches, [](std::uint64_t batches) { return batches > 0; });
}

// A rank's own copy of the parameters between two rounds.

Status GroupClient::make_ranks(HostRanks::Options options, const Flags& flags,
                               std::optional<CardRanks::Options> card) {
  options.packs = flags.packs;
  const bool is_local = set_.dense_strategy() == wire::STRATEGY_LOCAL_SGD;
  if (flags.packs && (is_local || group_->has_levels())) {
    return Error{Errc::kUsage, "bf16 transfer does not support local_sgd or node_groups"};
  }
  if (card && !is_local && !flags.packs && !group_->has_levels() && CardRanks::can_keep(set_)) {
    PADDLE_TRY(ranks_, CardRanks::create(set_, *group_, *std::move(card)));
    return {};
  }
  if (is_local) options.floats_beside = LocalRounds::floats_of_element(set_);
  PADDLE_TRY(auto ranks, HostRanks::create(set_, *group_, std::move(options)));
  if (is_local) local_.emplace(set_, *ranks);
  ranks_ = std::move(ranks);
  return {};
}

std::uint64_t LocalRounds::floats_of_element(const wire::ParameterSet& set) {
  return 5 + optim::state_width(set.optimizer());
}

void LocalRounds::pull(std::span<client::DenseParameter> parameters) {
  if (replica_.is_empty()) replica_.reset(group_values());
  for (client::DenseParameter& one : parameters) {
    one.lent = {};
    one.placed_gradient = {};
  }
  replica_.copy_to(parameters);
}

void LocalRounds::add(const client::PushTotals& totals, const optim::Progress& begun,
                      std::span<client::DenseParameter> parameters) {
  const float rate = window_.add(totals, begun);
  if (totals.samples > 0) replica_.update(rate, parameters);  // else the batch was left out
}

std::vector<client::DenseParameter> LocalRounds::group_values() const {
  std::vector<client::DenseParameter> values;
  for (const std::uint32_t parameter : ranks_.layout().dense()) {
    const auto from = ranks_.values(parameter);
    values.push_back(
        {.parameter = parameter, .value = LargeArray<float>(from.size()), .gradient = {}});
    std::ranges::copy(from, values.back().value.begin());
  }
  return values;
}

// Consumers of the state that a rank gathers from the others.

class GroupClient::Sink {
 public:
  virtual ~Sink() = default;
  // The memory for a plane of a parameter; it has the parameter's size.
  virtual std::span<float> place(std::uint32_t parameter, std::uint32_t plane) = 0;
  virtual void finish(std::uint32_t parameter) = 0;  // all of its planes are gathered
};

// Writes the averages to where a test reads the values.
class GroupClient::AverageSink final : public Sink {
 public:
  AverageSink(const DenseRanks& ranks, std::span<client::DenseParameter> parameters)
      : ranks_(ranks), parameters_(parameters) {}
  std::span<float> place(std::uint32_t parameter, std::uint32_t plane) override;
  void finish(std::uint32_t) override {}

 private:
  const DenseRanks& ranks_;
  std::span<client::DenseParameter> parameters_;
  std::vector<float> unused_;
};

// Adds the parameters to a snapshot, one at a time.
class GroupClient::SnapshotSink final : public Sink {
 public:
  SnapshotSink(const wire::ParameterSet& set, const DenseRanks& ranks,
               snapshot::SnapshotWriter& writer)
      : set_(set), ranks_(ranks), writer_(writer) {}
  std::span<float> place(std::uint32_t parameter, std::uint32_t plane) override;
  void finish(std::uint32_t parameter) override;
  const Status& written() const { return written_; }

 private:
  const wire::ParameterSet& set_;
  const DenseRanks& ranks_;
  snapshot::SnapshotWriter& writer_;
  Status written_;  // the first failure
  std::vector<float> value_;
  std::vector<float> state_;
};

std::span<float> GroupClient::AverageSink::place(std::uint32_t parameter, std::uint32_t) {
  const std::size_t size = ranks_.layout().parameter(parameter).size();
  const auto found = std::ranges::find(parameters_, parameter, &client::DenseParameter::parameter);
  if (found == parameters_.end()) {
    unused_.resize(size);
    return unused_;
  }
  found->value.resize(size);
  return found->value;
}

std::span<float> GroupClient::SnapshotSink::place(std::uint32_t parameter, std::uint32_t plane) {
  const std::size_t size = ranks_.layout().parameter(parameter).size();
  value_.resize(size);
  state_.resize(size * ranks_.state_width());
  return plane == 0 ? std::span(value_) : std::span(state_).subspan((plane - 1) * size, size);
}

void GroupClient::SnapshotSink::finish(std::uint32_t parameter) {
  if (!written_) return;
  if (optim::has_average(set_.optimizer())) optim::swap_average(value_, state_);
  written_ = writer_.add_dense(set_.parameters(static_cast<int>(parameter)), value_, state_,
                               ranks_.update_count(parameter));
}

// The functions that a trainer calls.

Result<std::unique_ptr<GroupClient>> GroupClient::create(
    wire::ParameterSet set, std::unique_ptr<collective::Group> group, HostRanks::Options options,
    const Flags& flags, std::optional<CardRanks::Options> card,
    std::optional<GroupSavepoints::Options> savepoints) {
  PADDLE_TRY_STATUS(parameter::validate(set));
  if (set.num_trainers() != group->size()) {
    return Error{Errc::kUsage, fmt::format("the group has {} ranks, but the job has {} trainers",
                                           group->size(), set.num_trainers())};
  }
  std::unique_ptr<GroupClient> client(new GroupClient(std::move(set), std::move(group), flags));
  const std::uint64_t bytes_max = options.bytes_max;
  const Status made = client->make_ranks(std::move(options), flags, std::move(card));
  if (!made) return client->fail(made.error());
  PADDLE_TRY_STATUS(client->go_back(std::move(savepoints), bytes_max));
  return client;
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
  if (!place_.is_restored) keep_savepoint();
  return {};
}

Status GroupClient::pull_dense(std::span<client::DenseParameter> parameters) {
  if (local_) {
    local_->pull(parameters);
    return {};
  }
  return ranks_->lend(parameters);
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
  if (!optim::has_average(set_.optimizer())) return ranks_->lend(dense);
  for (client::DenseParameter& one : dense) {
    one.lent = {};
    one.card.value = nullptr;
  }
  AverageSink sink(*ranks_, dense);
  return fetch(Request::kAverages, sink);
}

// Makes the round of the next push, without its cost: that is not known yet.
Status GroupClient::begin_push(std::uint64_t num_samples) {
  if (local_ || !ranks_->sums_early()) return {};
  if (const Status checked = check_samples(num_samples); !checked) return fail(checked.error());
  PADDLE_TRY(const Infos infos,
             meet(Request::kStep,
                  {.samples = num_samples, .stop = asks_to_stop_, .savepoint = wants_savepoint()}));
  begun_push_.assign(infos.begin(), infos.end());
  if (collective::total_samples(infos) == 0) return {};
  if (const Status begun = ranks_->begin_sum(shares_of(infos)); !begun) return fail(begun.error());
  return {};
}

Status GroupClient::push(std::uint64_t num_samples, double cost_sum,
                         std::span<client::DenseParameter> dense,
                         std::span<client::SparseRows> sparse) {
  if (!sparse.empty()) {
    return Error{Errc::kUsage, "this client has no sparse tables to push",
                 "a group keeps no sparse tables"};
  }
  const client::PushTotals totals{.samples = num_samples, .cost = cost_sum};
  if (!local_) return push_round(totals, dense);
  local_->add(totals, place_.begun, dense);
  if (!local_->is_round_due()) return {};
  PADDLE_TRY_STATUS(push_moves());
  local_->copy_to(dense);
  return {};
}

Status GroupClient::repeat_push(std::uint64_t, std::uint64_t, double,
                                std::span<client::DenseParameter>, std::span<client::SparseRows>) {
  return Error{Errc::kUsage, "a rank's push cannot be repeated"};
}

void GroupClient::repeat_end(client::PassEnd end) {
  PADDLE_CHECK(place_.is_restored && place_.ended.paused == (end == client::PassEnd::kPause));
  repeats_end_ = true;
}

Result<client::PassTotals> GroupClient::end_pass(const Tally& tally, client::PassEnd end) {
  if (std::exchange(repeats_end_, false)) return place_.ended;
  const bool is_finite =
      std::ranges::all_of(tally.sums, [](double sum) { return std::isfinite(sum); });
  if (!is_finite) {
    return fail(Error{Errc::kFailed, fmt::format("a sum of trainer {}'s evaluators is not finite",
                                                 group_->rank())});
  }
  bool pauses = end == client::PassEnd::kPause;
  if (local_ && !local_->is_empty()) {
    PADDLE_TRY_STATUS(push_moves());
    pauses = pauses || stop_asked_;  // as do ranks that have more data after this round
  }
  bool is_over = false;
  const TimePoint begun = std::chrono::steady_clock::now();
  while (!pauses && !is_over) {
    PADDLE_TRY(const Infos infos,
               meet(Request::kStep,
                    {.stop = asks_to_stop_, .out_of_data = true, .savepoint = wants_savepoint()}));
    is_over = std::ranges::all_of(infos, &collective::StepInfo::out_of_data);
    if (is_over) break;
    report_others_training(infos, std::chrono::steady_clock::now() - begun);
    PADDLE_TRY_STATUS(apply(infos));
    pauses = stop_asked_;
  }
  if (pauses) {
    if (const auto met = meet(Request::kMeet); !met) return met.error();
  }
  // A job that continues from a snapshot of this place begins with these values.
  PADDLE_TRY_STATUS(ranks_->settle());
  PADDLE_TRY(Tally all, group_->sum(tally));
  is_paused_ = pauses;
  if (local_) local_->end_pass(pauses ? client::PassEnd::kPause : end);
  client::PassTotals totals = place_.end_pass(std::move(all), pauses);
  // Within a pass, a job that is to stop continues from its snapshot, or from the savepoint before.
  if (!place_.is_within_pass()) keep_savepoint();
  return totals;
}

Result<bool> GroupClient::is_any(bool own) {
  PADDLE_TRY(const Infos infos, meet(Request::kAsk, {.out_of_data = own}));
  return std::ranges::any_of(infos, &collective::StepInfo::out_of_data);
}

Status GroupClient::announce_busy(std::string_view activity) {
  is_busy_ = true;
  group_->set_activity(activity);
  group_->serve_in_background();
  return {};
}

// Until all ranks have reached this barrier, another rank may still need this one to save. A rank
// that is lost after it does no harm.
Status GroupClient::leave() {
  if (const auto met = meet(Request::kMeet); !met) return met.error();
  Status left = group_->leave(std::chrono::steady_clock::now() + kLeaveMax);
  if (left || left.error().code != Errc::kUnreachable) return left;
  log_info("the job is over: {}", left.error().message);
  return {};
}

GroupClient::GroupClient(wire::ParameterSet set, std::unique_ptr<collective::Group> group,
                         const Flags& flags)
    : set_(std::move(set)),
      group_(std::move(group)),
      plan_hash_(hash_combine(
          hash_combine(stable_hash(set_.SerializeAsString()),
                       hash_combine(kBucketElements, group_->has_levels() ? 1 : 0)),
          hash_combine(hash_combine(flags.passes, flags.saving_period),
                       hash_combine((flags.packs ? 2 : 0) + flags.has_decisions, flags.uneven)))),
      place_(group_->size()) {}

// Snapshots of a group: a rank gathers the state and writes it; rank 0 reads a snapshot and sends
// its state to the others.

Status GroupClient::load(const std::string& directory) {
  auto reader = snapshot::SnapshotReader::open(directory);
  if (!reader) return fail(std::move(reader).error());
  return load_as_root(*reader, false);
}

Status GroupClient::resume(const snapshot::SnapshotReader& snapshot) {
  return load_as_root(snapshot, true);
}

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
  PADDLE_TRY_STATUS(fetch(Request::kState, sink));
  return sink.written();
}

// Rounds of all ranks, and the updates that follow them.

Error GroupClient::fail(Error why) {
  group_->abort(why);
  if (ranks_) ranks_->interrupt(why);
  return why;
}

Result<GroupClient::Infos> GroupClient::begin_round(Request request, collective::StepInfo own) {
  // A test or a save is not over when it fetches state.
  const bool ends_work = request < Request::kState;
  if (ends_work && std::exchange(is_busy_, false)) group_->set_activity("");
  own.step = place_.step;
  own.plan_hash = plan_hash_;
  own.request = static_cast<std::uint32_t>(request);
  const std::span<float> carried = ranks_->carried();
  kept_.assign(carried.begin(), carried.end());
  PADDLE_TRY(const Infos infos,
             group_->begin_step(own, carried,
                                set_.merge() == wire::MERGE_SUM ? &collective::sum_shares
                                                                : &collective::mean_shares));
  return infos;
}

Result<GroupClient::Infos> GroupClient::meet(Request request, collective::StepInfo own) {
  own.cost += std::exchange(unreported_cost_, 0.0);
  for (;;) {
    PADDLE_TRY(const Infos infos, begin_round(request, own));
    const auto root = first_state_request(infos);
    if (!root) {
      for (std::uint32_t rank = 0; rank < infos.size(); ++rank) {
        if (infos[rank].request == static_cast<std::uint32_t>(request)) continue;
        return fail(
            Error{Errc::kFailed,
                  fmt::format("{} and {} are at different places of the job (step {})",
                              group_->name(rank), group_->name(group_->rank()), place_.step),
                  "this is a bug"});
      }
      for (const collective::StepInfo& info : infos) place_.pass.cost += info.cost;
      return infos;
    }
    std::ranges::copy(kept_, ranks_->carried().begin());
    PADDLE_TRY_STATUS(serve(*root, static_cast<Request>(infos[*root].request), nullptr));
  }
}

Status GroupClient::fetch(Request request, Sink& sink) {
  for (;;) {
    PADDLE_TRY(const Infos infos, begin_round(request, {}));
    const std::uint32_t root =
        *first_state_request(infos);  // not above this rank, which wants state
    const auto wanted = static_cast<Request>(infos[root].request);
    const bool is_own = root == group_->rank();
    PADDLE_TRY_STATUS(serve(root, wanted, is_own ? &sink : nullptr));
    if (is_own) return {};
  }
}

std::optional<std::uint32_t> GroupClient::first_state_request(Infos infos) {
  const auto wants_state = [](const collective::StepInfo& info) {
    return info.request >= static_cast<std::uint32_t>(Request::kState);
  };
  const auto found = std::ranges::find_if(infos, wants_state);
  if (found == infos.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - infos.begin());
}

// The root takes part to the end, even if its sink fails.
Status GroupClient::serve(std::uint32_t root, Request request, Sink* sink) {
  const std::uint32_t last = ranks_->state_width();
  const std::uint32_t first = request == Request::kAverages ? last : 0;
  for (const std::uint32_t parameter : ranks_->layout().dense()) {
    for (std::uint32_t plane = first; plane <= last; ++plane) {
      const auto into = sink == nullptr ? std::span<float>() : sink->place(parameter, plane);
      PADDLE_TRY_STATUS(ranks_->gather(root, parameter, plane, into));
    }
    if (sink != nullptr) sink->finish(parameter);
  }
  return {};
}

Status GroupClient::push_round(const client::PushTotals& totals,
                               std::span<client::DenseParameter> dense) {
  PADDLE_TRY(const std::string above, ranks_->take(dense));
  const std::uint32_t rank = group_->rank();
  const Status checked = check_push(rank, place_.cursors[rank] + 1, totals, above);
  if (!checked) return fail(checked.error());
  if (!begun_push_.empty()) {
    const auto infos = std::exchange(begun_push_, {});
    PADDLE_CHECK(infos[rank].samples == totals.samples);
    unreported_cost_ = totals.cost;
    return apply(infos);
  }
  PADDLE_TRY(const Infos infos, meet(Request::kStep, {.samples = totals.samples,
                                                      .cost = totals.cost,
                                                      .batches = totals.batches,
                                                      .stop = asks_to_stop_,
                                                      .savepoint = wants_savepoint()}));
  return apply(infos);
}

Status GroupClient::push_moves() {
  std::vector<client::DenseParameter> moves = local_->take_moves();
  return push_round(local_->take_totals(), moves);
}

void GroupClient::report_others_training(Infos infos, Duration waited) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < infos.size(); ++rank) {
    if (!infos[rank].out_of_data) ranks.push_back(rank);
  }
  group_->tell_waiting(ranks, waited);
}

std::vector<float> GroupClient::shares_of(Infos infos) const {
  return set_.merge() == wire::MERGE_SUM ? collective::sum_shares(infos)
                                         : collective::mean_shares(infos);
}

// Counts and applies a round of pushes as a shard does.
Status GroupClient::apply(Infos infos) {
  if (std::ranges::any_of(infos, &collective::StepInfo::stop)) stop_asked_ = true;
  place_.count(infos);
  const auto shares = shares_of(infos);
  const bool has_samples = collective::total_samples(infos) > 0;
  // A move includes the learning rate.
  const float rate =
      local_ ? 1 : optim::learning_rate(set_.optimizer(), {place_.samples, place_.passes});
  if (has_samples) {
    // The other ranks wait for this one, and must receive its error.
    if (const Status updated = ranks_->update(shares, rate); !updated) return fail(updated.error());
    if (local_) local_->on_round();
  }
  ++place_.step;
  if (infos[0].savepoint) keep_savepoint();
  return {};
}

// Savepoints of a group: all ranks keep them at the same steps, and go back to one after a loss.

// A rank without savepoints takes part, too: then no rank goes back to a savepoint, and all begin
// anew, or with the snapshot that rank 0 loads.
Status GroupClient::go_back(std::optional<GroupSavepoints::Options> options,
                            std::uint64_t bytes_max) {
  if (!set_.trainers_return()) return {};
  if (options && !has_room(*ranks_, bytes_max)) {
    log_warning(
        "no memory for savepoints: if a trainer fails, the whole job resumes from its last "
        "snapshot");
    options.reset();
  }
  if (options) {
    savepoints_ = std::make_unique<GroupSavepoints>(*std::move(options),
                                                    shape_of(*group_, *ranks_, set_, plan_hash_));
  }
  PADDLE_TRY(const GroupSavepoints::Mark mark, agree_on_savepoint(*group_, savepoints_.get()));
  // Done before any rank makes a step, so that no rank keeps a savepoint after which the job went
  // on differently.
  if (savepoints_) savepoints_->keep_only(mark);
  return mark.number == 0 ? Status() : restore(mark);
}

Status GroupClient::restore(const GroupSavepoints::Mark& mark) {
  wire::GroupSavepoint message;
  bool is_read = true;
  const auto lose = [&](Error why) {
    savepoints_->keep_only({});  // then it is not a common savepoint of all ranks
    return fail(
        {Errc::kUnreachable, std::move(why.message), "all trainers go back to an earlier state"});
  };
  const auto head = savepoints_->head(mark);
  if (!head) return lose(head.error());
  if (!message.ParseFromString(*head) || !GroupPlace::is_whole(message) ||
      message.update_counts_size() != set_.parameters_size()) {
    return lose({Errc::kData, "the header of a savepoint is malformed"});
  }
  const std::vector<std::uint64_t> counts(message.update_counts().begin(),
                                          message.update_counts().end());
  const Status restored = savepoints_->restore(mark, [&](const GroupSavepoints::Take& take) {
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
  savepoint_number_ = message.number();
  unreported_cost_ = savepoints_->own(mark);
  log_info("all trainers go back to their savepoints of step {}", place_.step);
  return {};
}

bool GroupClient::wants_savepoint() const {
  return group_->rank() == 0 && savepoints_ &&
         savepoints_->is_due(SteadyClock().now(), place_.pass_batches[0] + 1);
}

// All ranks call this at the same step.
void GroupClient::keep_savepoint() {
  ++savepoint_number_;
  if (!savepoints_ || !ranks_->is_settled()) return;
  wire::GroupSavepoint head;
  head.set_number(savepoint_number_);
  place_.write_to(head);
  for (int i = 0; i < set_.parameters_size(); ++i)
    head.add_update_counts(ranks_->update_count(static_cast<std::uint32_t>(i)));
  savepoints_->keep(savepoint_number_, head.SerializeAsString(), unreported_cost_,
                    [this](const GroupSavepoints::Put& put) { return ranks_->read_part(put); });
}

// How rank 0 sends its state to the others.

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

// `value` and `state` are used on rank 0 only, as what it sends.
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
  if (size > kStartBytesMax)
    return fail(Error{Errc::kData, "the start message of rank 0 is too long"});
  std::string bytes(size, '\0');
  PADDLE_TRY_STATUS(group_->broadcast(0, std::as_writable_bytes(std::span(bytes))).wait());
  wire::GroupStart message;
  wire::ParameterSet theirs;
  if (!message.ParseFromString(bytes) || !theirs.ParseFromString(message.parameters())) {
    return fail(Error{Errc::kData, "the start message of rank 0 is malformed"});
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

}  // namespace paddle::strategy
