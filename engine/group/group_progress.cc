#include "engine/group/group_progress.h"

#include <algorithm>
#include <utility>

namespace paddle::strategy {
namespace {

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
                      savepoint.tally_histograms(), savepoint.tally_grouped());
}

}  // namespace

void GroupProgress::count(std::span<const collective::StepInfo> infos) {
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

const client::PassTotals& GroupProgress::end_pass(Tally all, bool is_pause) {
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

bool GroupProgress::is_within_pass() const {
  return std::ranges::any_of(pass_batches, [](std::uint64_t batches) { return batches > 0; });
}

client::JobProgress GroupProgress::progress(std::uint32_t rank) const {
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

void GroupProgress::go_to(const wire::LoadBegin& place, const wire::PassOrigins& from) {
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

void GroupProgress::go_to(const wire::GroupSavepoint& savepoint) {
  go_to(savepoint.place(), savepoint.origins());
  passes_loaded = savepoint.passes_loaded();
  pauses = savepoint.pauses();
  pass = totals_of(savepoint.pass());
  ended = totals_of(savepoint.ended());
  ended.paused = savepoint.paused();
  ended.tally = *tally_of(savepoint);
  is_restored = true;
}

bool GroupProgress::is_whole(const wire::GroupSavepoint& savepoint) {
  return static_cast<bool>(tally_of(savepoint));
}

void GroupProgress::write_to(wire::GroupSavepoint& savepoint) const {
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
  savepoint.set_tally_grouped(ended.tally.grouped.size());
  const Bytes tally = encode(ended.tally);
  savepoint.set_tally(tally.data(), tally.size());
}

}  // namespace paddle::strategy
